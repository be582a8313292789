"""Workers that fail say why; the sweep never guesses."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from rbx.errors import BundleError, StoreError
from rbx.sweep.context import SweepContext
from rbx.sweep.executor import StopRequest, run_in_processes
from rbx.sweep.store import CellSpec, SweepStore

CELLS = [CellSpec(f"c{i}", "label", {}, 1.0, None, 0, "hash", 1) for i in range(3)]


def refuse(folder: Path) -> SweepContext:
    raise BundleError(f"{folder}: the bundle changed")


def die(folder: Path) -> SweepContext:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("unreachable")


def finished(cell: CellSpec) -> None:
    raise AssertionError(f"{cell.cell_id} can't have finished")


def test_an_error_in_a_worker_is_the_error_of_the_sweep(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match="the bundle changed"):
        run_in_processes(refuse, CELLS, SweepStore(tmp_path), 2, StopRequest(), finished)


def test_a_killed_worker_is_told_by_its_exit_code(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"exit code -9.*same command"):
        run_in_processes(die, CELLS, SweepStore(tmp_path), 1, StopRequest(), finished)


def test_a_stop_before_the_start_runs_nothing(tmp_path: Path) -> None:
    stop = StopRequest()
    stop.asked = True
    run_in_processes(refuse, CELLS, SweepStore(tmp_path), 2, stop, finished)
    assert list(tmp_path.iterdir()) == []
