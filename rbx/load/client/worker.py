"""One client process: ``python -m rbx.load.client.worker``, told what to do on standard input.

It reads one JSON line with its orders, then per request one JSON line and the bytes of its body. It says
``ready``, waits for a line with the start on ``time.monotonic``, which all processes of a machine share,
and sends. While it runs it tells ``counts``, at the end ``done``, or what has ``failed``. A line ``stop``
ends it early, and so does the end of its input: no client outlives the one who started it.
"""

from __future__ import annotations

import asyncio
import gc
import os
import resource
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

import orjson

from rbx.config.live import LoadClient
from rbx.ending import leave_ending_to_parent
from rbx.errors import ConfigError, StoreError
from rbx.label.redaction import Redaction
from rbx.load.client.hashed import hashed
from rbx.load.client.journal import JournalWriter
from rbx.load.client.lag import LoopLag
from rbx.load.client.origin import Origin
from rbx.load.client.request import LoadRequest, LoadTarget
from rbx.load.client.result import LoadResult
from rbx.load.client.sending import Sending
from rbx.load.client.tally import Counts
from rbx.load.client.wire import Wire, wire

if sys.platform != "win32":
    from uvloop import new_event_loop
else:
    from asyncio import new_event_loop

BEAT_S = 0.1
COUNTS_EVERY = 3  # beats


class Orders(asyncio.Protocol):
    """What comes on standard input once all requests are known: the start, then perhaps a stop."""

    def __init__(self) -> None:
        """Nothing yet."""
        self.start_s: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        self.stopped = asyncio.Event()
        self._rest = b""

    def data_received(self, data: bytes) -> None:
        """A line is an order."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            if line == b"stop":
                self.stopped.set()
            elif not self.start_s.done():
                self.start_s.set_result(float(line))

    def connection_lost(self, exc: Exception | None) -> None:
        """Whoever gave the orders is gone."""
        self.stopped.set()
        self.start_s.cancel()


class Written(asyncio.Protocol):
    """Standard output: ``all`` is set once it is closed with all that was told."""

    def __init__(self) -> None:
        """Open."""
        self.all = asyncio.Event()

    def connection_lost(self, exc: Exception | None) -> None:
        """Closed."""
        self.all.set()


class Worker:
    """One slice of a schedule and what is told of it."""

    def __init__(self, told: dict[str, Any], wires: list[Wire], origin: Origin) -> None:
        """``told`` are the orders; raises ``StoreError`` where the journal can't be opened."""
        self._journal = JournalWriter(Path(told["journal"]))
        self._keep_text: bool = told["keep_text"]
        self._counts = Counts()
        self._origin = origin
        self._lag = LoopLag(time.monotonic)
        self._sending = Sending(
            wires,
            origin,
            LoadClient.model_validate(told["client"]),
            told["drain_s"],
            self._ended,
            redaction=Redaction([told["key"] or ""]),
        )

    async def run(self) -> None:
        """From ready to done."""
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(_give_up)
        _, orders = await loop.connect_read_pipe(Orders, sys.stdin)
        out, written = await loop.connect_write_pipe(Written, sys.stdout)
        try:
            with suppress(OSError):  # each request will tell
                await self._origin.resolve()
            _tell(out, "ready", None)
            await self._send(await orders.start_s, orders, out)
        except StoreError as error:
            _tell(out, "failed", _reason(error))
        finally:
            out.close()
            await written.all.wait()

    async def _send(self, start_s: float, orders: Orders, out: asyncio.WriteTransport) -> None:
        loop = asyncio.get_running_loop()
        stopping = loop.create_task(self._stop(orders))
        sending = loop.create_task(self._sending.run(start_s))
        cpu_s = time.process_time()
        self._lag.start()
        try:
            await self._beats(sending, out)
        finally:
            self._lag.stop()
            stopping.cancel()
        cpu_s = time.process_time() - cpu_s
        await asyncio.to_thread(self._journal.close, self._journal.take())
        _tell(out, "counts", self._now())
        _tell(out, "done", self._last_words(start_s, cpu_s))

    def _ended(self, result: LoadResult) -> None:
        self._journal.add(result if self._keep_text else hashed(result))
        self._counts.add(result)

    async def _stop(self, orders: Orders) -> None:
        await orders.stopped.wait()
        self._sending.stop()

    async def _beats(self, sending: asyncio.Task[None], out: asyncio.WriteTransport) -> None:
        beat = 0
        while not sending.done():
            await asyncio.wait({sending}, timeout=BEAT_S)
            # Neither a slow disk nor a reader who sleeps holds up the loop.
            if lines := self._journal.take():
                await asyncio.to_thread(self._journal.write, lines)
            beat += 1
            if beat % COUNTS_EVERY == 0 and not out.get_write_buffer_size():
                _tell(out, "counts", self._now())
        sending.result()

    def _now(self) -> dict[str, Any]:
        sending = self._sending
        return self._counts.told(sending.sent, sending.waiting, sending.in_flight)

    def _last_words(self, start_s: float, cpu_s: float) -> dict[str, Any]:
        sending = self._sending
        return {
            "sent": sending.sent,
            "first_sent_s": sending.first_sent_s - start_s,
            "last_sent_s": sending.last_sent_s - start_s,
            "delays_s": [round(delay_s, 6) for delay_s in sending.delays_s],
            "lags": self._lag.lags.as_json(),
            "cpu_s": cpu_s,
        }


def main() -> int:
    """Do what standard input says."""
    leave_ending_to_parent()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    try:
        told = orjson.loads(sys.stdin.buffer.readline())
        target = LoadTarget(told["url"], told["key"])
        origin = Origin(target)
        wires = [_read(sys.stdin.buffer, origin, target.key) for _ in range(told["requests"])]
        worker = Worker(told, wires, origin)
        # What is there now stays: no pause to look through it again, and few to look through the rest.
        gc.collect()
        gc.freeze()
        gc.set_threshold(50_000, 50, 1000)
        loop = new_event_loop()
        try:
            loop.run_until_complete(worker.run())
        finally:
            loop.close()
    except (ConfigError, StoreError) as error:
        os.write(1, orjson.dumps(["failed", _reason(error)], option=orjson.OPT_APPEND_NEWLINE))
        return 1
    except asyncio.CancelledError:
        return 1  # nobody is there to hear why
    return 0


def _read(file: BinaryIO, origin: Origin, key: str | None) -> Wire:
    number, scheduled_s, path, headers, size = orjson.loads(file.readline())
    pairs = tuple((name, value) for name, value in headers)
    return wire(LoadRequest(number, scheduled_s, path, file.read(size), pairs), origin, key)


def _give_up(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """A callback of ours failed: a run that goes on would lose requests."""
    loop.default_exception_handler(context)
    sys.stderr.flush()
    os._exit(1)


def _reason(error: Exception) -> dict[str, str]:
    return {"kind": type(error).__name__, "message": str(error)}


def _tell(out: asyncio.WriteTransport, word: str, what: object) -> None:
    out.write(orjson.dumps([word, what], option=orjson.OPT_NON_STR_KEYS | orjson.OPT_APPEND_NEWLINE))


if __name__ == "__main__":
    sys.exit(main())
