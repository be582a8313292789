"""``rbx build-dataset`` against live servers, killed and taken up again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.label.labelling import Job, job, right, strict, wrong
from tests.label.scripted_server import Reply, Rule

FILES = ("prompts.parquet", "responses.parquet", "labels.parquet", "manifest.json", "README.md")


def slowly(rule: Rule, delay_s: float = 0.05) -> Rule:
    def answered(path: str, body: dict[str, Any]) -> Reply:
        reply = rule(path, body)
        return Reply(reply.body, reply.status, reply.headers, delay_s=delay_s)

    return answered


def command(work: Job, *words: str) -> list[str]:
    return [sys.executable, "-m", "rbx", "build-dataset", str(work.spec), *words]


def start(work: Job, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command(work, *words), cwd=work.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def until(happened: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    deadline_s = time.monotonic() + 60.0
    while not happened():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline_s
        time.sleep(0.005)


def test_killed_amid_the_answers_and_amid_the_scores_gives_the_grid_of_one_left_alone(tmp_path: Path) -> None:
    with job(tmp_path, models=(slowly(right), slowly(wrong)), judge=slowly(strict)) as work:
        whole = start(work, "--out", "whole")
        assert whole.wait(60.0) == 0, whole.communicate()
        asked, judged = work.asked, len(work.judge.seen)
        first = start(work, "--out", "killed")
        until(lambda: work.asked > asked + 20, first)
        first.kill()
        first.wait()
        assert not (tmp_path / "killed").exists()
        second = start(work, "--out", "killed")
        until(lambda: len(work.judge.seen) > judged + 15, second)
        second.kill()
        second.wait()
        third = start(work, "--out", "killed")
        _, err = third.communicate(timeout=60.0)
        assert third.returncode == 0, err
        # What had landed was not asked again: only calls under way at a kill are repeated.
        assert 2 * asked <= work.asked <= 2 * asked + 8
        assert 2 * judged <= len(work.judge.seen) <= 2 * judged + 4
    for name in FILES:
        assert (tmp_path / "killed" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes(), name
    left = sorted(path.name for path in tmp_path.iterdir())
    assert left == ["killed", "killed.work", "sums.jsonl", "sums.yaml", "whole", "whole.work"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_ctrl_c_finishes_what_is_under_way_and_the_same_command_goes_on(
    tmp_path: Path, number: signal.Signals
) -> None:
    with job(tmp_path, models=(slowly(right), slowly(wrong)), judge=slowly(strict)) as work:
        process = start(work, "--out", "grid")
        until(lambda: work.asked > 10, process)
        os.kill(process.pid, number)
        _, err = process.communicate(timeout=60.0)
        assert process.returncode == 130
        assert "the same command goes on" in err
        lines = (tmp_path / "grid.work" / "answers.jsonl").read_text().splitlines()
        assert len(lines) == work.asked
        done = subprocess.run(
            command(work, "--out", "grid"), cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        assert work.asked == 80


def test_two_builds_of_one_grid_do_not_mix(tmp_path: Path) -> None:
    with job(tmp_path, models=(slowly(right, 1.0), slowly(wrong))) as work:
        first = start(work, "--out", "grid")
        until(lambda: work.asked > 3, first)
        second = subprocess.run(
            command(work, "--out", "grid"), cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert second.returncode == 1
        assert "another rbx writes it" in second.stderr
        assert first.wait(60.0) == 0
