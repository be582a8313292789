"""The client processes of one run, from the side that starts them."""

from __future__ import annotations

import os
import selectors
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import IO, Any, NoReturn

import orjson

from rbx.errors import ConfigError, LoadError, StoreError
from rbx.load.client.request import LoadRequest

READY_S = 120.0
END_S = 5.0
_SHOWN_CHARACTERS = 2000
_COMMAND = (sys.executable, "-m", "rbx.load.client.worker")
_ERRORS = {"ConfigError": ConfigError, "StoreError": StoreError}


@contextmanager
def processes(count: int) -> Iterator[Processes]:
    """Start ``count`` of them, and end them with the block: by closing their input, then by force.

    Their standard input closes as well when this process ends, ``kill -9`` included, which ends them.
    """
    with ExitStack() as stack:
        complaints = [stack.enter_context(tempfile.TemporaryFile()) for _ in range(count)]
        children: list[subprocess.Popen[bytes]] = []
        for complaint in complaints:
            child = subprocess.Popen(
                _COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=complaint
            )
            stack.callback(_end, child)
            children.append(child)
        for child in children:
            assert child.stdin is not None
            stack.callback(_close, child.stdin)
        yield Processes(children, complaints)


def _close(pipe: IO[bytes]) -> None:
    with suppress(OSError):
        pipe.close()


def _end(child: subprocess.Popen[bytes]) -> None:
    """Wait for one whose input is closed."""
    try:
        child.wait(END_S)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
    assert child.stdout is not None
    child.stdout.close()


class Processes:
    """Running client processes; see ``processes``."""

    def __init__(self, children: Sequence[subprocess.Popen[bytes]], complaints: Sequence[IO[bytes]]) -> None:
        """``complaints`` is where each one's standard error goes."""
        self.count = len(children)
        self._children, self._complaints = children, complaints
        self._selector = selectors.DefaultSelector()
        self._rest = [b""] * self.count
        self._over = [False] * self.count
        for number, child in enumerate(children):
            assert child.stdout is not None
            self._selector.register(child.stdout, selectors.EVENT_READ, number)

    def give(self, slices: Sequence[tuple[Mapping[str, Any], Sequence[LoadRequest]]]) -> None:
        """Orders and requests to each, and wait until all are ready; raises ``LoadError``."""
        for child, (orders, requests) in zip(self._children, slices, strict=True):
            assert child.stdin is not None
            with suppress(BrokenPipeError):  # why it ended is told below
                child.stdin.write(orjson.dumps({**orders, "requests": len(requests)}) + b"\n")
                for one in requests:
                    head = [one.request, one.scheduled_s, one.path, one.headers, len(one.body)]
                    child.stdin.write(orjson.dumps(head) + b"\n" + one.body)
                child.stdin.flush()
        ready: set[int] = set()
        until_s = time.monotonic() + READY_S
        while len(ready) < self.count:
            ready.update(number for number, word, _ in self.heard(0.1) if word == "ready")
            if time.monotonic() > until_s:
                raise LoadError(f"the load client was not ready within {READY_S:g} s; is the machine busy?")

    def tell(self, line: bytes) -> None:
        """A line to each."""
        for child in self._children:
            assert child.stdin is not None
            with suppress(BrokenPipeError):
                child.stdin.write(line)
                child.stdin.flush()

    def heard(self, within_s: float) -> list[tuple[int, str, Any]]:
        """What processes have told, as (process, word, what), waiting ``within_s`` for it.

        Raises what a process has failed with, ``LoadError`` where one ended without its last words.
        """
        words: list[tuple[int, str, Any]] = []
        for key, _ in self._selector.select(within_s):
            number: int = key.data
            data = os.read(key.fd, 1 << 16)
            if not data:
                self._selector.unregister(key.fileobj)
                if not self._over[number]:
                    self._ended_early(number)
                continue
            *lines, self._rest[number] = (self._rest[number] + data).split(b"\n")
            for line in lines:
                word, what = orjson.loads(line)
                if word == "failed":
                    raise _ERRORS.get(what["kind"], LoadError)(what["message"])
                self._over[number] = self._over[number] or word == "done"
                words.append((number, word, what))
        return words

    def _ended_early(self, number: int) -> NoReturn:
        code = self._children[number].wait()
        complaint = self._complaints[number]
        complaint.seek(0)
        said = complaint.read().decode("utf-8", "replace").strip()[-_SHOWN_CHARACTERS:]
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        raise LoadError(
            f"client process {number} of {self.count} ended early ({how}); the run is incomplete"
            + (f"; it said:\n{said}" if said else "")
        )
