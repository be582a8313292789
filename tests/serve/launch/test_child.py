"""What becomes of a launched command and of the processes that it has started itself."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from rbx.serve.launch import guard
from rbx.serve.launch.child import Child

PARENT = """
import subprocess, sys, time
worker = subprocess.Popen(["sleep", "300"])
print("worker", worker.pid, flush=True)
time.sleep(300)
"""


def wait_for(holds: Callable[[], bool], within_s: float = 20.0) -> None:
    until_s = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < until_s
        time.sleep(0.02)


def lives(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def guard_of(worker: int) -> int:
    """The process two above: the command's, and its guard's."""

    def above(pid: int) -> int:
        return int(Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[1])

    found = above(above(worker))
    assert guard.__file__.encode() in Path(f"/proc/{found}/cmdline").read_bytes()
    return found


def started(folder: Path, code: str = PARENT) -> tuple[Child, int]:
    child = Child("server", [sys.executable, "-c", code], {}, folder / "server.log", 0.5)
    wait_for(lambda: any(line.startswith("worker") for line in child.last_lines(5)))
    return child, int(child.last_lines(1)[0].split()[1])


@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
def test_a_killed_guard_leaves_no_worker_of_its_server_behind(tmp_path: Path) -> None:
    child, worker = started(tmp_path)
    try:
        assert lives(worker)
        assert child.exit_code is None
        os.kill(guard_of(worker), signal.SIGKILL)
        wait_for(lambda: child.exit_code is not None)
        assert child.exit_code == 128 + signal.SIGKILL
        wait_for(lambda: not lives(worker))
    finally:
        with suppress(ProcessLookupError):
            os.kill(worker, signal.SIGKILL)


@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
def test_a_guard_killed_while_the_end_is_awaited_leaves_none_either(tmp_path: Path) -> None:
    stubborn = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)" + PARENT
    child, worker = started(tmp_path, stubborn)
    try:
        os.kill(guard_of(worker), signal.SIGSTOP)
        os.kill(guard_of(worker), signal.SIGKILL)
        child.let_go()
        asyncio.run(child.ended())
        wait_for(lambda: not lives(worker))
    finally:
        with suppress(ProcessLookupError):
            os.kill(worker, signal.SIGKILL)


@pytest.mark.parametrize(("code", "exit_code"), [("raise SystemExit(3)", 3), ("import os; os.abort()", 134)])
def test_a_command_that_ends_by_itself_is_told_by_its_code(code: str, exit_code: int, tmp_path: Path) -> None:
    child = Child("server", [sys.executable, "-c", code], {}, tmp_path / "server.log", 0.5)
    wait_for(lambda: child.exit_code is not None)
    assert child.exit_code == exit_code
    missing = Child("server", ["no-such-command"], {}, tmp_path / "server.log", 0.5)
    wait_for(lambda: missing.exit_code is not None)
    assert missing.exit_code == guard.NOT_FOUND
