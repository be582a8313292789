"""An answer that comes as a stream of server-sent events."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping

import aiohttp

from rbx.config.gateway import Deadlines
from rbx.label.redaction import Redaction
from rbx.load.completion_chunk import DONE, ChunkError, TokenTally, read_chunk
from rbx.load.sse import SseError, SseEvent, SseReader
from rbx.serve.exchange import Piece, UpstreamFault
from rbx.serve.upstream.chunk_piece import chunk_piece, told_error

MAX_BYTES_BEFORE_TOKEN = 16 << 20
REUSE_WITHIN_S = 0.5
SHOWN_CHARACTERS = 200


class StreamExchange:
    """An ``Exchange`` over an open response.

    One timer watches its deadlines: when it fires it looks when the last token came, so that a piece costs
    no timer. Silence counts only while the exchange waits for the server; a reader that is slow to take
    pieces is not the server's fault.
    """

    def __init__(
        self,
        response: aiohttp.ClientResponse,
        headers: Mapping[str, str],
        deadlines: Deadlines,
        total_at_s: float,
        choices: int,
        redaction: Redaction,
    ) -> None:
        """``total_at_s`` is on ``time.monotonic``; ``choices`` must finish for the answer to be whole;
        ``redaction`` takes the key out of errors.
        """
        self.status = response.status
        self.headers = headers
        self._response = response
        self._deadlines = deadlines
        self._total_at_s = total_at_s
        self._choices = choices
        self._redaction = redaction
        self._reader = SseReader()
        self._tally = TokenTally()
        self._early: list[Piece] = []
        self._begun = False
        self._whole = False  # all of the answer is there, whatever comes after it
        self._over = False  # nothing more will be read
        self._closed = False  # by the one who reads it
        self._finished: set[int] = set()
        self._fault: UpstreamFault | None = None
        self._read_at_s = self._silent_since_s = time.monotonic()
        self._waits = False
        self._timer: asyncio.TimerHandle | None = None

    async def begin(self) -> None:
        """Read up to the first token, or to the end of an answer that has none; raises ``UpstreamFault``.

        The caller bounds the time, and closes the response when this fails.
        """
        size = 0
        while not (self._begun or self._over):
            pieces = await self._read()
            self._early += pieces
            size += sum(len(piece.raw) for piece in pieces)
            if size > MAX_BYTES_BEFORE_TOKEN and not self._begun:
                raise UpstreamFault("malformed", f"{size} bytes came and no token among them", True)
        if self._fault is not None and not self._begun:
            raise self._fault
        if not self._over:
            self._silent_since_s = self._read_at_s
            self._watch(self._deadlines.between_tokens_s)

    async def pieces(self) -> AsyncIterator[Piece]:
        """All pieces from the first on; raises ``UpstreamFault`` after the last that came."""
        early, self._early = self._early, []
        for piece in early:
            yield piece
        while not self._over:
            for piece in await self._read():
                yield piece
        if self._fault is not None:
            raise self._fault

    async def close(self) -> None:
        """End it; closes the connection unless the answer is whole, which tells the server to stop."""
        if self._closed:
            return
        self._closed = True
        self._end()
        if self._whole:
            self._reuse()
        else:
            self._hang_up("closed")

    def give_up(self, fault: UpstreamFault) -> None:
        """End it with ``fault``, which its reader meets at once if it waits, else at its next read."""
        self._fault = fault
        self._hang_up(fault.detail)

    async def _read(self) -> list[Piece]:
        """Pieces of what the server sends next; the last ones where ``_over`` is set."""
        content = self._response.content
        self._silent_since_s += time.monotonic() - self._read_at_s
        self._waits = True
        lost = ""
        data = b""
        try:
            data = await content.readany()
        except (aiohttp.ClientError, OSError) as error:
            lost = f"{type(error).__name__}: {error}"
        finally:
            self._waits = False
            self._read_at_s = time.monotonic()
        if self._closed:
            return []
        if lost or self._fault is not None:
            self._lost(lost)
            return []
        try:
            if data:
                return self._pieces(self._reader.feed(data))
            return self._last_pieces()
        except SseError as error:
            self._fail(UpstreamFault("malformed", self._redaction.message(str(error)), True))
            return []

    def _pieces(self, events: list[SseEvent]) -> list[Piece]:
        pieces: list[Piece] = []
        for event in events:
            try:
                pieces.append(self._piece(event))
            except UpstreamFault as fault:
                self._fail(fault)
            if self._over:
                break
        return pieces

    def _last_pieces(self) -> list[Piece]:
        """The connection ended in good order: perhaps without the last event's blank line."""
        # Half a document is no event: the connection was cut amid it.
        rest = [
            event for event in self._reader.finish() if event.data == DONE or read_chunk(event.data or b"")
        ]
        pieces = self._pieces([event._replace(raw=event.raw + b"\n\n") for event in rest])
        self._lost("")
        return pieces

    def _piece(self, event: SseEvent) -> Piece:
        data, at_s = event.data, self._read_at_s
        if data is None or (not data and not event.name):
            return Piece(event.raw, at_s)
        if data == DONE:
            self._begun = self._whole = True
            self._end()
            return Piece(event.raw, at_s, done=True)
        chunk = read_chunk(data)
        error = chunk.error if chunk is not None else None
        if error is None and event.name == b"error":
            error = ChunkError(self._shown(data))
        if error is not None and not self._begun:
            raise told_error(error, data, self._redaction)
        if error is not None:
            self._whole = True  # told is told: that the stream ends here is no second fault
            told = self._redaction.message(error.message)
            return Piece(self._redaction.body(event.raw), at_s, error=told)
        if chunk is None:
            raise UpstreamFault("malformed", f"an event is no JSON object: {self._shown(data)!r}", True)
        tokens = self._tally.new_tokens(chunk)
        piece = chunk_piece(event.raw, chunk, at_s, tokens)
        if piece.finish_reason is not None:
            self._finished.update(delta.choice for delta in chunk.deltas if delta.finish_reason)
            self._whole = len(self._finished) >= self._choices
        if tokens or piece.finish_reason is not None:
            self._begun = True
            self._silent_since_s = at_s
        elif self._tally.risen(chunk):
            self._silent_since_s = at_s
        return piece

    def _shown(self, data: bytes) -> str:
        # Masked before it is shortened: half a key would not be known again.
        return self._redaction.body(data).decode("utf-8", "replace")[:SHOWN_CHARACTERS]

    def _lost(self, why: str) -> None:
        """The connection is gone; the answer may be whole all the same."""
        if self._fault is None and not self._whole:
            self._fault = UpstreamFault("cut", why or "the stream ended before the answer did", True)
        self._end()
        if not self._whole:
            self._response.close()

    def _fail(self, fault: UpstreamFault) -> None:
        self._fault = fault
        self._whole = False
        self._end()
        self._response.close()

    def _end(self) -> None:
        self._over = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _reuse(self) -> None:
        """Let the connection go back once the response's own end comes, which it should at once."""
        content = self._response.content
        if not content.is_eof():
            timer = asyncio.get_running_loop().call_later(REUSE_WITHIN_S, self._response.close)
            content.on_eof(timer.cancel)

    def _watch(self, in_s: float) -> None:
        until_end_s = self._total_at_s - time.monotonic()
        in_s = max(0.001, min(in_s, until_end_s))
        self._timer = asyncio.get_running_loop().call_later(in_s, self._look)

    def _look(self) -> None:
        now_s = time.monotonic()
        between_s = self._deadlines.between_tokens_s
        silent_s = (now_s if self._waits else self._read_at_s) - self._silent_since_s
        if silent_s < between_s and now_s < self._total_at_s:
            self._watch(between_s - silent_s)
        elif self._whole:
            self._hang_up("the answer is whole, and the server does not end the stream")
        elif silent_s >= between_s:
            self.give_up(UpstreamFault("stalled", f"no token for {between_s:g} s", True))
        else:
            # Tokens came all the time: a long answer, not a sick instance.
            detail = f"not done within {self._deadlines.total_s:g} s"
            self.give_up(UpstreamFault("stalled", detail, retryable=True, counts=False))

    def _hang_up(self, why: str) -> None:
        """Close the connection, and wake whoever waits for it: aiohttp itself leaves a reader waiting."""
        self._response.content.set_exception(aiohttp.ClientConnectionError(why))
        self._response.close()
