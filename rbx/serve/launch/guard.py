"""Runs one command, and ends its whole process group once the pipe on standard input closes.

``rbx launch`` holds the other end of that pipe. However it ends, ``kill -9`` included, the system closes
the pipe, and nothing that was launched outlives it. Before the command begins, the number of its group is
written to descriptor ``REPORT``, so that ``rbx launch`` can end the group of a guard that was killed itself.
Run as ``python -I guard.py GRACE_S REPORT SCRATCH COMMAND ...``; SCRATCH, unless it is empty, is a folder
that goes with the pipe. Only the standard library is imported, as one guard stands beside each server.
"""

from __future__ import annotations

import ctypes
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress

NOT_FOUND = 127
_PR_SET_PDEATHSIG = 1
_LOOK_S = 0.05


def main(arguments: list[str]) -> int:
    """Run the command of ``arguments``; its exit code, 128 and the signal where one ended it."""
    grace_s, report, scratch, command = float(arguments[0]), int(arguments[1]), arguments[2], arguments[3:]
    os.set_inheritable(report, False)
    # Only the pipe ends a guard: a terminal's signals do not reach it, and its own end is the command's.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    try:
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=_as_before(os.getpid(), report),
        )
    except OSError as error:
        print(f"{command[0]}: {error.strerror}", file=sys.stderr)
        return NOT_FOUND
    while child.poll() is None:
        readable, _, _ = select.select([0, woken], [], [])
        if 0 in readable:  # closed: nothing is ever written
            _end(child, grace_s)
            break
        os.read(woken, 512)
    _signal(child.pid, signal.SIGKILL)  # what the command has left behind
    code = child.wait()
    if scratch and select.select([0], [], [], 0)[0]:  # else the one who holds the pipe may want to look at it
        shutil.rmtree(scratch, ignore_errors=True)
    return 128 - code if code < 0 else code


def _as_before(guard: int, report: int) -> Callable[[], None]:
    """In the child: signals as usual, death with the guard where the platform has that, its group told."""

    def prepare() -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        if sys.platform == "linux":
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != guard:
                os._exit(NOT_FOUND)
        os.write(report, str(os.getpid()).encode())

    return prepare


def _end(child: subprocess.Popen[bytes], grace_s: float) -> None:
    _signal(child.pid, signal.SIGTERM)
    until_s = time.monotonic() + grace_s
    while child.poll() is None and time.monotonic() < until_s:
        time.sleep(_LOOK_S)


def _signal(group: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
