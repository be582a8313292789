"""Sweeps and reports on a Ray cluster of several nodes give the bytes of those here, whatever befalls it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from rbx.cli.main import run
from rbx.errors import StoreError
from rbx.sweep.shipped import check_identity, code_identity
from tests.ray_nodes import RayNodes, ray_nodes
from tests.workplace import N_CELLS, Workplace

NODES = {name: {"num_cpus": 2} for name in ("first", "second")}


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RayNodes]:
    with ray_nodes(NODES, tmp_path_factory.mktemp("ray") / "cluster.log") as cluster:
        yield cluster


@pytest.fixture(autouse=True)
def driving(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if "nodes" in request.fixturenames:
        cluster = request.getfixturevalue("nodes")
        for name, value in {**cluster.variables, "RAY_ADDRESS": cluster.address}.items():
            monkeypatch.setenv(name, value)


def workers_at_work(task: bytes) -> list[int]:
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                title = (folder / "cmdline").read_bytes()
            except OSError:
                continue
            if title.startswith(task):
                found.append(int(folder.name))
    return found


def ended_though_workers_die(command: list[str], folder: Path, task: bytes) -> int:
    """Run ``command`` to its end and kill up to two workers at ``task``; how many were met at work."""
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    killed: set[int] = set()
    while process.poll() is None and len(killed) < 2:
        for pid in workers_at_work(task)[:1]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                killed.add(pid)
        time.sleep(0.002)
    said = process.communicate(timeout=200)[0].decode()
    assert process.returncode == 0, said
    return len(killed)


def test_a_sweep_on_ray_gives_the_bytes_of_one_here_and_goes_on_where_it_stopped(
    workplace: Workplace, finished: dict[str, bytes], nodes: RayNodes
) -> None:
    sweep = workplace.command("sweep", "tiny.yaml", "--out", "results/ray", "--executor", "ray")
    process = subprocess.Popen(sweep, cwd=workplace.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    cells = workplace.folder / "results/ray/cells"
    until_s = time.monotonic() + 200
    while process.poll() is None and len(list(cells.glob("*.json"))) < 3:
        assert time.monotonic() < until_s
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=120)[0].decode()
    assert process.returncode == 130, said
    assert "run the same command again to go on" in said
    assert 3 <= len(workplace.cells("results/ray")) < N_CELLS
    assert workplace.cells("results/ray").items() <= finished.items()

    # The rest as from a machine outside the cluster.
    workplace.rbx("sweep", "tiny.yaml", "--out", "results/ray", "--executor", nodes.client_address)
    assert workplace.cells("results/ray") == finished
    summaries = {
        out: {path.name: path.read_bytes() for path in (workplace.folder / out / "cells").glob("*.json")}
        for out in ("results/ray", "results/whole")
    }
    assert summaries["results/ray"] == summaries["results/whole"]


@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
@pytest.mark.usefixtures("nodes")
def test_the_cells_of_killed_workers_are_run_again(workplace: Workplace, finished: dict[str, bytes]) -> None:
    """A worker that has its context at hand is done in milliseconds: it takes luck to meet two at work."""
    for turn in range(8):
        out = f"results/killed-{turn}"
        sweep = workplace.command("sweep", "tiny.yaml", "--out", out, "--executor", "ray")
        killed = ended_though_workers_die(sweep, workplace.folder, b"ray::_run_elsewhere")
        assert workplace.cells(out) == finished
        if killed == 2:
            return
    pytest.fail("no two workers were ever met at work")


@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
@pytest.mark.usefixtures("nodes", "finished")
def test_a_report_whose_resamples_are_taken_on_ray_is_the_same_whatever_becomes_of_workers(
    workplace: Workplace,
) -> None:
    summary = workplace.folder / "results/whole/report/summary.json"
    resamples = ("--resamples", "60000")
    workplace.rbx("report", "results/whole", *resamples)
    here = summary.read_bytes()
    for _ in range(8):
        summary.unlink()
        report = workplace.command("report", "results/whole", *resamples, "--executor", "ray")
        killed = ended_though_workers_die(report, workplace.folder, b"ray::_take")
        assert summary.read_bytes() == here
        if killed == 2:
            return
    pytest.fail("no two workers were ever met at work")


def test_executors_that_can_not_be_meant_are_refused(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(workplace.folder)
    for named in ("threads", "ray://", "auto", "127.0.0.1:6379"):
        assert run(["sweep", "tiny.yaml", "--executor", named]) == 2
        assert "processes, ray, ray://HOST:PORT or ray://local" in capsys.readouterr().err
    done = workplace.rbx(
        "sweep", "tiny.yaml", "--out", "results/none", "--executor", "ray://127.0.0.1:9", code=1
    )
    assert "Ray at ray://127.0.0.1:9 can't be used: Connection refused" in done.stderr
    assert workplace.cells("results/none") == {}


def test_a_worker_with_other_code_refuses_to_compute() -> None:
    ours = code_identity()
    check_identity(ours)
    with pytest.raises(StoreError, match=rf"it has numpy {ours['numpy']} \(here 1\.0\); install the same"):
        check_identity({**ours, "numpy": "1.0"})
