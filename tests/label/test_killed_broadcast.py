"""A broadcast that is killed twice ends up with the rows of one that was left alone."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from tests.label.broadcasting import model, questions, rows, run, source
from tests.label.scripted_server import Reply, answer, prompt_of, scripted

PROGRAM = """
import json, sys
from pathlib import Path
from rbx.config.labelling import LabelSource
from tests.label.broadcasting import questions, run

run(Path(sys.argv[1]), questions(int(sys.argv[2])), LabelSource.model_validate(json.loads(sys.argv[3])))
"""
ROOT = Path(__file__).resolve().parents[2]
N = 60


def reply(body: dict[str, Any]) -> Reply:
    number = int(prompt_of(body).split()[1])
    if number % 10 == 3:
        return Reply({"error": "refused"}, status=400)
    if number % 10 == 7:
        return answer(" ")
    return answer(f"{number} squared is {number**2}", output_tokens=number + 1, delay_s=0.01)


def in_order(path: Path) -> list[dict[str, Any]]:
    return sorted(rows(path), key=lambda row: (row["prompt_id"], row["model"]))


def test_killed_twice_and_run_again_gives_the_rows_of_an_uninterrupted_run(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    asked = threading.Semaphore(0)

    def rule(_: str, body: dict[str, Any]) -> Reply:
        asked.release()
        return reply(body)

    with scripted(rule) as server:
        of = source(model("small", server), model("large", server, concurrency=2))
        command = [sys.executable, "-c", PROGRAM, str(path), str(N), json.dumps(of.model_dump(mode="json"))]
        kept = []
        for questions_before_the_kill in (30, 50):
            with subprocess.Popen(command, cwd=ROOT) as killed:
                for _ in range(questions_before_the_kill):
                    assert asked.acquire(timeout=30.0), "the broadcast stopped asking"
                killed.send_signal(signal.SIGKILL)
            assert killed.returncode == -signal.SIGKILL
            kept.append(len(rows(path)))
        assert 0 < kept[0] < kept[1] < 2 * N
        report = run(path, questions(N), of)
        assert sum(each.kept for each in report.models) == kept[1], "only what is missing is asked"
        run(tmp_path / "whole.jsonl", questions(N), of)
    assert in_order(path) == in_order(tmp_path / "whole.jsonl")
    assert len(in_order(path)) == 2 * N
