"""One launched process: in a group of its own, its output in a file, and ended whatever becomes of us."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from rbx.serve.launch import guard

_BEYOND_GRACE_S = 5.0
_LOOK_S = 0.05
_TAIL_BYTES = 64_000
_KILLED = 128 + signal.SIGKILL


class Child:
    """A command under its guard; see ``rbx.serve.launch.guard``."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        environment: Mapping[str, str],
        log: Path,
        grace_s: float,
        scratch: Path | None = None,
    ) -> None:
        """Start it, keeping an older log as ``NAME.log.1``; raises ``OSError`` where none can be written.

        ``scratch`` is a folder that is removed once the command, let go, has ended.
        """
        self.name, self.log = name, log
        self._grace_s = grace_s
        with suppress(FileNotFoundError):
            log.replace(log.with_name(f"{log.name}.1"))
        told, report = os.pipe()
        self._told = os.fdopen(told, "rb", buffering=0)
        guarded = [
            sys.executable,
            "-I",
            guard.__file__,
            str(grace_s),
            str(report),
            str(scratch or ""),
            *command,
        ]
        try:
            with log.open("wb") as output:
                self._guard = subprocess.Popen(
                    guarded,
                    stdin=subprocess.PIPE,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    env={**os.environ, **environment},
                    start_new_session=True,
                    pass_fds=(report,),
                )
        except OSError:
            self._told.close()
            raise
        finally:
            os.close(report)

    @property
    def exit_code(self) -> int | None:
        """None while it runs; 128 and the signal's number where one ended it.

        A guard that was killed could not end its group: that is done here.
        """
        code = self._guard.poll()
        if code is None:
            return None
        if not self._told.closed:
            with self._told:
                if code < 0:
                    self._end_group()
        return 128 - code if code < 0 else code

    @property
    def ending(self) -> str | None:
        """None while it runs, then how it ended."""
        code = self.exit_code
        why = " (SIGKILL; the system does so when memory runs out)" if code == _KILLED else ""
        return None if code is None else f"ended with exit code {code}{why}"

    def last_lines(self, count: int) -> list[str]:
        """The end of its log."""
        with self.log.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
            text = file.read().decode("utf-8", "replace")
        return text.splitlines()[-count:]

    def let_go(self) -> None:
        """Ask for its end: SIGTERM to its group, after the grace SIGKILL. Returns at once."""
        if self._guard.stdin is not None:
            self._guard.stdin.close()

    async def ended(self) -> None:
        """Wait for the end that was asked for; a guard that hangs is killed."""
        until_s = asyncio.get_running_loop().time() + self._grace_s + _BEYOND_GRACE_S
        while self.exit_code is None:
            if asyncio.get_running_loop().time() > until_s:
                self._guard.send_signal(signal.SIGKILL)
            await asyncio.sleep(_LOOK_S)

    def _end_group(self) -> None:
        """SIGKILL for what a killed guard has left behind, the workers of a server for one."""
        group = self._told.read(64)  # empty if no command had begun
        if group:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(int(group), signal.SIGKILL)
