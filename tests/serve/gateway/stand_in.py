"""Stand-ins for what surrounds a gateway: instances that answer as told, a watch that knows dispatches."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import numpy as np
import orjson

from rbx.config.gateway import Deadlines, Watch
from rbx.config.pool import Pool
from rbx.engine.telemetry import PoolTelemetry
from rbx.heads.bea.unseen import NOTHING_UNSEEN
from rbx.serve.exchange import Piece, UpstreamFault, Usage
from rbx.serve.watch.sight import PoolSight


def event(data: Mapping[str, Any]) -> bytes:
    return b"data: " + orjson.dumps(data) + b"\n\n"


def chunk(choices: list[dict[str, Any]], **more: Any) -> bytes:
    return event(
        {
            "id": "c1",
            "object": "chat.completion.chunk",
            "created": 1,
            "model": "m",
            "choices": choices,
            **more,
        }
    )


class StandIn:
    """One instance: gives ``tokens`` tokens, one each ``pace_s``, or fails as told."""

    def __init__(self, tokens: int = 5, pace_s: float = 0.0, input_tokens: int | None = None) -> None:
        self.tokens = tokens
        self.pace_s = pace_s
        self.input_tokens = input_tokens
        self.wait_s = 0.0  # before an answer begins or fails, besides the pace
        self.word = "w"  # what each token of a stream begins with
        self.fault: Callable[[], UpstreamFault] | None = None
        self.cut_after: int | None = None
        self.bodies: list[dict[str, Any]] = []
        self.paths: list[str] = []
        self.under_way = 0
        self.most = 0  # under way at once
        self.cancelled = 0
        self.closed = False

    async def send(
        self, path: str, body: Mapping[str, Any], deadlines: Deadlines, request_id: str | None = None
    ) -> StandInExchange:
        assert request_id
        self.paths.append(path)
        self.bodies.append(dict(body))
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        try:
            if self.pace_s + self.wait_s:
                await asyncio.sleep(self.pace_s + self.wait_s)
        except asyncio.CancelledError:
            self.under_way -= 1
            self.cancelled += 1
            raise
        if self.fault is not None:
            self.under_way -= 1
            raise self.fault()
        return StandInExchange(self, body)

    async def close(self) -> None:
        self.closed = True


class StandInExchange:
    """An answer of a stand-in; ``events`` is what it gives in a stream."""

    status = 200

    def __init__(self, owner: StandIn, body: Mapping[str, Any]) -> None:
        self._owner = owner
        self._body = body
        self._open = True
        self._ended = False
        self.headers = {"content-type": "text/event-stream" if body.get("stream") else "application/json"}

    @property
    def input_tokens(self) -> int:
        shown = len(orjson.dumps(self._body.get("messages", self._body.get("prompt"))))
        return self._owner.input_tokens or max(1, shown // 4)

    @property
    def output_tokens(self) -> int:
        given = [self._body.get(name) for name in ("max_completion_tokens", "max_tokens")]
        return min(self._owner.tokens, *(cap for cap in given if isinstance(cap, int)))

    @property
    def reason(self) -> str:
        return "length" if self.output_tokens < self._owner.tokens else "stop"

    def usage(self, output_tokens: int) -> dict[str, int]:
        total = self.input_tokens + output_tokens
        return {
            "prompt_tokens": self.input_tokens,
            "completion_tokens": output_tokens,
            "total_tokens": total,
        }

    def plain(self) -> bytes:
        message = {"role": "assistant", "content": " ".join(["word"] * self.output_tokens)}
        choice = {"index": 0, "message": message, "finish_reason": self.reason}
        return orjson.dumps({"id": "c1", "choices": [choice], "usage": self.usage(self.output_tokens)})

    def events(self) -> list[Piece]:
        options = self._body.get("stream_options") or {}
        running = bool(options.get("continuous_usage_stats"))
        role = {"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}
        pieces = [Piece(chunk([role]), 0.0)]
        for k in range(self.output_tokens):
            last = k == self.output_tokens - 1
            reason = self.reason if last else None
            choice = {"index": 0, "delta": {"content": f"{self._owner.word}{k} "}, "finish_reason": reason}
            more = {"usage": self.usage(k + 1)} if running else {}
            usage = Usage(self.input_tokens, k + 1) if running else None
            pieces.append(Piece(chunk([choice], **more), 0.0, 1, usage, reason))
        if options.get("include_usage"):
            raw = chunk([], usage=self.usage(self.output_tokens))
            pieces.append(Piece(raw, 0.0, 0, Usage(self.input_tokens, self.output_tokens)))
        return [*pieces, Piece(b"data: [DONE]\n\n", 0.0, done=True)]

    async def pieces(self) -> AsyncIterator[Piece]:
        now = time.monotonic
        if not self._body.get("stream"):
            usage = Usage(self.input_tokens, self.output_tokens)
            self._ended = True
            yield Piece(self.plain(), now(), self.output_tokens, usage, self.reason, done=True)
            return
        for k, piece in enumerate(self.events()):
            if self._owner.cut_after == k:
                self._ended = True
                raise UpstreamFault("cut", "the connection is gone", True)
            if k and self._owner.pace_s:
                await asyncio.sleep(self._owner.pace_s)
            yield piece._replace(at_s=now())
        self._ended = True

    async def close(self) -> None:
        if self._open:
            self._open = False
            self._owner.under_way -= 1
            self._owner.cancelled += not self._ended


class StandInWatch:
    """Knows what it was told: every request in flight counts as running."""

    def __init__(self, pool: Pool) -> None:
        n = len(pool.instances)
        self.ready = np.ones(n, dtype=np.bool_)
        self.in_flight: list[dict[str, int]] = [{} for _ in range(n)]
        self.dispatches = np.zeros(n, dtype=np.int64)
        self.waiting = np.zeros(n, dtype=np.int64)
        self.started = False

    async def start(self) -> None:
        self.started = True

    async def stop(self) -> None:
        self.started = False

    def configure(self, config: Watch) -> None:
        pass

    def dispatched(
        self,
        i: int,
        request_id: str,
        now_s: float,
        prompt_tokens: int,
        cap_tokens: int,
        predicted_tokens: int,
        *,
        streams: bool,
    ) -> None:
        assert request_id not in self.in_flight[i]
        assert prompt_tokens >= 1
        assert cap_tokens >= 1
        self.in_flight[i][request_id] = predicted_tokens
        self.dispatches[i] += 1

    def tokens(self, i: int, request_id: str, now_s: float, output_tokens_so_far: int) -> None:
        assert request_id in self.in_flight[i]

    def ended(self, i: int, request_id: str, now_s: float) -> None:
        del self.in_flight[i][request_id]

    def counted_s(self, now_s: float) -> list[float]:
        return [-math.inf] * len(self.in_flight)

    def view(self, now_s: float, *, snapshots: bool = True) -> PoolSight:
        n = len(self.in_flight)
        running = np.array([len(flight) for flight in self.in_flight], dtype=np.int64)
        pending = np.array([sum(flight.values()) for flight in self.in_flight], dtype=np.int64)
        zeros = np.zeros(n, dtype=np.int64)
        telemetry = PoolTelemetry(
            stamp_s=np.full(n, now_s),
            running=running,
            waiting=self.waiting.copy(),
            pending_prefill_tokens=zeros,
            pending_decode_tokens=pending,
            decode_context_tokens=zeros,
            free_blocks=np.full(n, 100),
            total_blocks=np.full(n, 100),
            received=self.dispatches.copy(),
        )
        return PoolSight(
            now_s,
            telemetry,
            (),
            (NOTHING_UNSEEN,) * n,
            ("stand-in",) * n,
            np.zeros(n),
            self.ready.copy(),
            running,
        )
