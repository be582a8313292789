"""One request under way: its answer, its deadlines, and what became of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from rbx.config.live import LoadClient
from rbx.label.redaction import Redaction
from rbx.load.client.answer import Answer
from rbx.load.client.connection import Connection
from rbx.load.client.result import LoadFaultKind, LoadResult, Status
from rbx.load.client.wire import Wire

KEPT_HEADERS = ("x-rbx-", "x-request-id")
MAX_HEADER_CHARACTERS = 8192
_TIMEOUTS = frozenset({"connect_timeout", "first_token_timeout", "stalled", "total_timeout", "drain"})
REUSE_WITHIN_S = 0.5  # a whole answer whose response does not end soon costs its connection
_MICROSECONDS = 6


class Exchange:
    """A ``Receiver`` from the moment its request leaves until it has a result.

    One timer watches its deadlines: when it fires it looks when the answer made progress last, so that
    a token costs no timer.
    """

    def __init__(
        self,
        wire: Wire,
        sent_s: float,
        limits: LoadClient,
        clock: Callable[[], float],
        done: Callable[[Exchange], None],
    ) -> None:
        """``done`` is called once, when the outcome is known."""
        self.wire = wire
        self.sent_s = sent_s
        self.answer = Answer(stream=wire.stream, choices=wire.choices, most_tokens=wire.most_tokens)
        self.first_byte_s: float | None = None
        self.headers: dict[str, str] = {}
        self.connection: Connection | None = None
        self.opening: asyncio.Task[Connection] | None = None
        self._limits = limits
        self._clock = clock
        self._done: Callable[[Exchange], None] | None = done
        self._timer: asyncio.TimerHandle | None = None

    def start(self, connection: Connection) -> None:
        """Write the request."""
        self.connection = connection
        connection.send(self.wire.data, self)
        self._watch()

    def give_up(self, fault: LoadFaultKind, detail: str) -> None:
        """End it now; the server sees the connection close."""
        self.answer.give_up(fault, detail, self._clock())
        self._finish()

    # Receiver

    def begun(self, at_s: float) -> None:
        """The first byte came."""
        self.first_byte_s = at_s

    def head(self, status: int, headers: list[tuple[str, str]]) -> None:
        """Keep the gateway's headers and begin the answer."""
        content_type = ""
        for name, value in headers:
            if name == "content-type":
                content_type = value
            elif name.startswith(KEPT_HEADERS):
                self.headers[name] = value[:MAX_HEADER_CHARACTERS]
        self.answer.begin(status, content_type)

    def body(self, data: bytes, at_s: float) -> None:
        """Part of the answer."""
        answer = self.answer
        begun = answer.progress_s is not None
        answer.feed(data, at_s)
        if answer.over:
            self._finish()
        elif not begun and answer.progress_s is not None and self.wire.stream:
            self._watch()  # the first token's deadline no longer holds

    def ended(self, at_s: float, lost: str | None) -> None:
        """The body ended, or the connection did."""
        if self.answer.status is None:
            self.answer.fail("cut", lost or "the connection closed before an answer", at_s)
        else:
            self.answer.end(at_s, lost)
        self._finish()

    def garbage(self, detail: str, at_s: float) -> None:
        """No HTTP."""
        if not self.answer.over:
            self.answer.fail("malformed", detail, at_s)
        self._finish()

    def _finish(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        connection, self.connection = self.connection, None
        if connection is not None:
            whole = self.answer.fault is None
            connection.let_go(REUSE_WITHIN_S if whole else 0.0)
        done, self._done = self._done, None
        if done is not None:
            done(self)

    def _watch(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        in_s = max(0.001, self._deadline_s() - self._clock())
        self._timer = asyncio.get_running_loop().call_later(in_s, self._look)

    def _deadline_s(self) -> float:
        limits, progress_s = self._limits, self.answer.progress_s
        deadline_s = self.sent_s + limits.total_s
        if self.wire.stream and progress_s is None:
            return min(deadline_s, self.sent_s + limits.first_token_s)
        if self.wire.stream and progress_s is not None:
            return min(deadline_s, progress_s + limits.between_tokens_s)
        return deadline_s

    def _look(self) -> None:
        self._timer = None
        now_s, limits = self._clock(), self._limits
        if now_s < self._deadline_s():
            self._watch()
        elif now_s >= self.sent_s + limits.total_s:
            self.give_up("total_timeout", f"not done within {limits.total_s:g} s")
        elif self.answer.progress_s is None:
            self.give_up("first_token_timeout", f"no token within {limits.first_token_s:g} s")
        else:
            self.give_up("stalled", f"no token for {limits.between_tokens_s:g} s")


def result(exchange: Exchange, start_s: float, redaction: Redaction) -> LoadResult:
    """What an exchange that is over comes to, in times from ``start_s`` to the microsecond."""
    answer, wire = exchange.answer, exchange.wire

    def after(at_s: float | None) -> float | None:
        return None if at_s is None else round(at_s - start_s, _MICROSECONDS)

    usage = answer.counted_tokens
    began = answer.status is not None and 200 <= answer.status < 300
    return LoadResult(
        request=wire.request,
        status=_status(answer.fault),
        fault=answer.fault,
        detail=redaction.message(answer.detail) if answer.detail is not None else None,
        http_status=answer.status,
        scheduled_s=wire.scheduled_s,
        sent_s=after(exchange.sent_s),
        first_byte_s=after(exchange.first_byte_s),
        first_token_s=after(answer.first_token_s),
        first_answer_s=after(answer.first_answer_s),
        last_token_s=after(answer.chunk_s[-1] if answer.chunk_s else None),
        done_s=after(answer.done_s),
        chunk_s=tuple([round(at_s - start_s, _MICROSECONDS) for at_s in answer.chunk_s]),
        chunk_tokens=tuple(answer.chunk_tokens),
        input_tokens=answer.input_tokens,
        output_tokens=usage if usage is not None else answer.received_tokens if began else None,
        tokens_source="usage" if usage is not None else "chunks",
        usage_disagrees=answer.usage_disagrees,
        cached_tokens=answer.cached_tokens,
        finish_reason=answer.finish_reason,
        text=redaction.data(answer.text),
        reasoning=redaction.data(answer.reasoning),
        headers={
            name: redaction.message(value) for name, value in (exchange.headers | answer.told_headers).items()
        },
    )


def _status(fault: LoadFaultKind | None) -> Status:
    if fault is None:
        return "ok"
    if fault == "stopped":
        return "cancelled"
    return "timeout" if fault in _TIMEOUTS else "error"
