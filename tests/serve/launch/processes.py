"""Commands run as a user runs them, and what is left of them."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
POOLS = ROOT / "experiments" / "pools"
WAIT_S = 180.0


class Running:
    """A command of ours under way; ``mark`` stands in the environment of every process that it starts."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path, mark: str, wait_s: float) -> None:
        self.process, self.log, self.mark, self._wait_s = process, log, mark, wait_s

    @property
    def said(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")

    def wait_for(self, pattern: str) -> re.Match[str]:
        self.until(lambda: re.search(pattern, self.said) is not None)
        found = re.search(pattern, self.said)
        assert found is not None
        return found

    def until(self, holds: Callable[[], bool]) -> None:
        until_s = time.monotonic() + self._wait_s
        while not holds():
            assert self.process.poll() is None, self.said
            assert time.monotonic() < until_s, self.said
            time.sleep(0.05)

    @property
    def url(self) -> str:
        return self.wait_for(r"on (http://\S+)/v1")[1]

    def left(self) -> list[int]:
        """Processes that carry the mark, without the command itself."""
        found = []
        for folder in Path("/proc").iterdir():
            if folder.name.isdecimal() and int(folder.name) != self.process.pid:
                try:
                    environment = (folder / "environ").read_bytes()
                except OSError:
                    continue
                if f"RBX_TEST_MARK={self.mark}".encode() in environment.split(b"\0"):
                    found.append(int(folder.name))
        return found

    def nothing_left(self, within_s: float = 20.0) -> None:
        until_s = time.monotonic() + within_s
        while left := self.left():
            assert time.monotonic() < until_s, left
            time.sleep(0.05)


@contextmanager
def running(arguments: Sequence[str], folder: Path, wait_s: float = WAIT_S) -> Iterator[Running]:
    log, mark = folder / "rbx.log", str(folder)
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "rbx", *arguments],
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env={**os.environ, "RBX_TEST_MARK": mark, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"},
        )
    command = Running(process, log, mark, wait_s)
    try:
        yield command
    finally:
        process.kill()
        process.wait()
        for left in command.left():
            os.kill(left, signal.SIGKILL)
