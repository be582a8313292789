"""Running one test of an answer's Python code in a limited process, and what came of it."""

from __future__ import annotations

import asyncio
import builtins
import contextlib
import json
import os
import secrets
import signal
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

SCRIPT = Path(__file__).with_name("confined.py")
GRACE_S = 5.0  # for starting and ending, beyond the test's own time
REPORT_BYTES = 4096
TIMED_OUT = 3
EXCEPTIONS = frozenset(
    name
    for name, kind in vars(builtins).items()
    if isinstance(kind, type) and issubclass(kind, BaseException)
)
ISOLATED = frozenset({"network", "processes", "files", "shared-memory"})  # all that can be


class Limits(NamedTuple):
    """What one test may use: seconds by the clock, and memory of each process."""

    timeout_s: float
    memory_bytes: int


class Outcome(NamedTuple):
    """``loaded``: the answer's code itself ran to its end. ``failure`` is None iff the test passed.

    ``isolated`` names what the code could not reach: network, processes, files, and shared memory, which
    no limit of a process counts.
    """

    loaded: bool
    failure: str | None
    isolated: frozenset[str]


async def run_test(answer: str, test: str, limits: Limits) -> Outcome | None:
    """Run the Python source ``answer``, then ``test`` with its names; no exception says what they did.

    The process has its own session, an empty folder that is removed, an environment without anything of
    ours, and limits on time, memory, file size, open files and processes. On Linux it has no network, sees
    no process but its own, and no file but the interpreter's and the system's libraries. It ends with all
    that it started.

    None where the process did not come to running the code, and nothing is known of it. Raises ``OSError``
    where the system starts no process.
    """
    nonce = secrets.token_hex(16)
    with tempfile.TemporaryDirectory(prefix="rbx-code-", ignore_cleanup_errors=True) as folder:
        task = {
            "answer": answer,
            "test": test,
            "nonce": nonce,
            "folder": folder,
            "timeout_s": limits.timeout_s,
            "memory_bytes": limits.memory_bytes,
        }
        reader, writer = os.pipe()
        os.set_blocking(reader, False)
        try:
            code = await _run(json.dumps(task).encode(), writer, folder, limits.timeout_s)
            with contextlib.suppress(BlockingIOError):
                return _outcome(os.read(reader, REPORT_BYTES), nonce.encode(), code)
        finally:
            os.close(reader)
    return None


async def _run(task: bytes, report: int, folder: str, timeout_s: float) -> int:
    # No hash seed by chance: a set's order must not decide a score.
    environment = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "PYTHONHASHSEED": "0"}
    try:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-s", "-S", "-B", str(SCRIPT), str(report)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
            cwd=folder,
            env=environment,
            pass_fds=(report,),
            start_new_session=True,
        )
    finally:
        os.close(report)
    try:
        await asyncio.wait_for(process.communicate(task), timeout_s + GRACE_S)
    except (TimeoutError, asyncio.TimeoutError):  # two types before Python 3.11
        return TIMED_OUT
    finally:
        await _end(process)
    return process.returncode if process.returncode is not None else TIMED_OUT


async def _end(process: asyncio.subprocess.Process) -> None:
    """End the script, which ends the code; whoever waits for it may have been cancelled."""
    for signum in (signal.SIGTERM, signal.SIGKILL):
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signum)
            with contextlib.suppress(TimeoutError, asyncio.TimeoutError):
                await asyncio.wait_for(process.wait(), 1.0)


def _outcome(report: bytes, nonce: bytes, code: int) -> Outcome | None:
    first, *lines = report.split(b"\n")
    if not first.startswith(b"isolated") or not lines:
        return None
    isolated = ISOLATED & set(first.decode("ascii", "replace").split())
    loaded = b"loaded" in lines
    if code == 0 and lines[-1] == nonce:
        return Outcome(True, None, isolated)
    if code == TIMED_OUT:
        return Outcome(loaded, "time ran out", isolated)
    # Shown and stored: nothing that the code itself chose to write.
    word = lines[-2].decode("ascii", "replace") if len(lines) > 1 else ""
    known = word == "error" or word in EXCEPTIONS
    return Outcome(loaded, word if known else "the process ended early", isolated)
