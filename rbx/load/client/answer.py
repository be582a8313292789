"""What an answer says and when, out of its bytes and the times at which they came; without a socket or clock.

How an answer ends up, for a stream:

========================================================  ==================
every choice has a finish_reason, or ``[DONE]`` came      ok
the body ended in good order after a usage of its own     ok
likewise, and neither output nor count nor reason came    empty
an error object, ``event: error``, reason abort or error  error_event
an event that is no JSON object, or is too long           malformed
the body or the connection ended before that              cut
========================================================  ==================

``[DONE]`` may be missing, or the connection lost, after an answer that is whole. An answer without text whose
usage or finish_reason tells that a model ran is ok. A plain answer must be one JSON object with a choice.
"""

from __future__ import annotations

from rbx.load.client.result import LoadFaultKind
from rbx.load.completion_chunk import (
    ABSURD,
    COUNT_LIMIT,
    DONE,
    ChunkError,
    CompletionChunk,
    TokenTally,
    read_chunk,
)
from rbx.load.sse import SseError, SseEvent, SseReader

MAX_PLAIN_BYTES = 64 << 20
MAX_REFUSAL_BYTES = 1 << 16
SHOWN_CHARACTERS = 300
BROKEN_OFF = frozenset({"abort", "error"})  # vLLM's words for a request that it gave up


class Answer:
    """The reader of one response. Times are of any clock; each call says when its bytes were read.

    ``over`` is set once nothing that may still come changes the outcome, which ``fault`` tells (None: ok).
    ``whole`` says that all of the answer came, whatever the server does next.
    """

    def __init__(self, *, stream: bool, choices: int = 1, most_tokens: int | None = None) -> None:
        """What was asked for: a stream or not, how many choices, and the most tokens of all."""
        self._asked_stream = stream
        self._choices = choices
        self._most_tokens = COUNT_LIMIT if most_tokens is None else most_tokens
        self._counts_absurd = False
        self._finished: set[int] = set()
        self._reader: SseReader | None = None
        self._blocks: list[bytes] = []
        self._size = 0
        self._tally = TokenTally()
        self._told: dict[int, int] = {}
        self._final: int | None = None
        self._counts_fell = False
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self.status: int | None = None
        self.fault: LoadFaultKind | None = None
        self.detail: str | None = None
        self.over = self.whole = False
        self.first_answer_s: float | None = None
        self.progress_s: float | None = None
        self.done_s: float | None = None
        self.chunk_s: list[float] = []
        self.chunk_tokens: list[int] = []
        self.input_tokens: int | None = None
        self.cached_tokens: int | None = None
        self.finish_reason: str | None = None
        self.told_headers: dict[str, str] = {}

    def begin(self, status: int, content_type: str) -> None:
        """The head is there."""
        self.status = status
        plain = content_type.partition(";")[0].strip().lower() == "application/json"
        if 200 <= status < 300 and self._asked_stream and not plain:
            self._reader = SseReader()

    def feed(self, data: bytes, at_s: float) -> None:
        """Part of the body."""
        if self.over:
            return
        if self._reader is None:
            self._keep(data, at_s)
            return
        try:
            for event in self._reader.feed(data):
                self._event(event, at_s)
                if self.over:
                    return
        except SseError as error:
            self.fail("malformed", str(error), at_s)

    def end(self, at_s: float, lost: str | None = None) -> None:
        """The body ended: in good order, or because the connection was ``lost``."""
        if self.over:
            return
        if self._reader is not None:
            self._end_stream(self._reader, at_s, lost)
        elif self.status is not None and not 200 <= self.status < 300:
            self._refused(at_s)
        elif lost is not None:
            self.fail("cut", lost, at_s)
        else:
            self._plain(b"".join(self._blocks), at_s)

    def give_up(self, fault: LoadFaultKind, detail: str, at_s: float) -> None:
        """The client waits no longer; a whole answer is ok all the same."""
        if self.over:
            return
        if self.whole:
            self._succeed(self.done_s if self.done_s is not None else at_s)
        else:
            self.fail(fault, detail, at_s)

    def fail(self, fault: LoadFaultKind, detail: str, at_s: float) -> None:
        """It ended with ``fault``, which the first one decides."""
        self.fault, self.detail, self.done_s = fault, detail, at_s
        self.over = True

    @property
    def first_token_s(self) -> float | None:
        """The read of the first chunk with output."""
        return self.chunk_s[0] if self.chunk_s else None

    @property
    def text(self) -> str:
        """Content, refusals included."""
        return encodable("".join(self._text))

    @property
    def reasoning(self) -> str:
        """What came on the reasoning channel."""
        return encodable("".join(self._reasoning))

    @property
    def counted_tokens(self) -> int | None:
        """The server's own count of output tokens: the last one of all, else the sum over choices.

        A sum that is beyond any count is none.
        """
        if self._final is not None:
            return self._final
        total = sum(self._told.values())
        return total if self._told and total < COUNT_LIMIT else None

    @property
    def received_tokens(self) -> int:
        """The sum over chunks; one for each where the server's counts come to a sum that is none."""
        total = sum(self.chunk_tokens)
        return total if total < COUNT_LIMIT else len(self.chunk_tokens)

    @property
    def usage_disagrees(self) -> bool:
        """Whether the server's count can't be true.

        Each chunk with output holds a token at least, and no answer is longer than was asked for.
        """
        counted = self.counted_tokens
        if self._counts_absurd or counted is None:
            return self._counts_absurd
        least = max(len(self.chunk_s), sum(self._told.values()))
        return self._counts_fell or not least <= counted <= self._most_tokens

    def _event(self, event: SseEvent, at_s: float) -> None:
        data = event.data
        if data is None:
            self._comment(event.raw)
            return
        if not data and not event.name:
            return
        if data == DONE:
            self._succeed(at_s)
            return
        chunk = read_chunk(data)
        error = chunk.error if chunk is not None else None
        if error is None and event.name == b"error":
            error = ChunkError(_shown(data))
        if error is not None:
            self.fail("error_event", encodable(error.message)[:SHOWN_CHARACTERS], at_s)
        elif chunk is None:
            self.fail("malformed", f"an event is no JSON object: {_shown(data)!r}", at_s)
        else:
            self._chunk(chunk, at_s)

    def _chunk(self, chunk: CompletionChunk, at_s: float) -> None:
        self.done_s = at_s
        if (chunk.output_tokens or 0) > ABSURD * self._most_tokens:
            chunk, self._counts_absurd = chunk._replace(output_tokens=None), True
        rose = chunk.output_tokens is not None and self._count(chunk, chunk.output_tokens)
        new = self._tally.new_tokens(chunk)
        if new:
            self.chunk_s.append(at_s)
            self.chunk_tokens.append(new)
        if new or rose:
            self.progress_s = at_s
        for delta in chunk.deltas:
            if delta.content:
                self._text.append(delta.content)
            if delta.reasoning:
                self._reasoning.append(delta.reasoning)
            if self.first_answer_s is None and (delta.content or delta.calls):
                self.first_answer_s = at_s
            if delta.finish_reason is not None:
                self.finish_reason = encodable(delta.finish_reason)[:SHOWN_CHARACTERS]
                self.progress_s = at_s
                self._finished.add(delta.choice)
                self.whole = len(self._finished) >= self._choices

    def _count(self, chunk: CompletionChunk, counted: int) -> bool:
        """Note the counts of a usage object; whether they rose."""
        if chunk.input_tokens is not None:
            self.input_tokens = chunk.input_tokens
        if chunk.cached_tokens is not None:
            self.cached_tokens = chunk.cached_tokens
        if not chunk.deltas:
            self._final = counted
            return False
        choice = chunk.deltas[0].choice if len(chunk.deltas) == 1 else -1
        before = self._told.get(choice, 0)
        self._told[choice] = counted
        if counted < before:
            self._counts_fell = True
        return counted > before

    def _comment(self, raw: bytes) -> None:
        """The gateway tells an answer's cost in ``: x-rbx-NAME=VALUE ...``."""
        if raw.startswith(b": x-rbx-"):
            for word in raw[2:].decode("utf-8", "replace").split():
                name, equals, value = word.partition("=")
                if equals and name.startswith("x-rbx-"):
                    self.told_headers[name] = value

    def _succeed(self, at_s: float) -> None:
        if self.finish_reason in BROKEN_OFF:
            self.fail("error_event", f"the answer ended with finish_reason {self.finish_reason}", at_s)
        elif not (self.chunk_s or self.finish_reason is not None or self.counted_tokens):
            self.fail("empty", "a success without output, count or finish_reason", at_s)
        else:
            self.whole = self.over = True
            self.done_s = at_s

    def _end_stream(self, reader: SseReader, at_s: float, lost: str | None) -> None:
        for event in reader.finish():
            # Half a document is no event: the connection was cut amid it.
            if event.data == DONE or read_chunk(event.data or b"") is not None:
                self._event(event, at_s)
        if self.over:
            return
        nothing = not (self.chunk_s or self._told or self._final or self.finish_reason)
        if self.whole or (lost is None and (self._final is not None or nothing)):
            self._succeed(at_s if lost is None or self.done_s is None else self.done_s)
        else:
            self.fail("cut", lost or "the stream ended before the answer did", at_s)

    def _keep(self, data: bytes, at_s: float) -> None:
        self._blocks.append(data)
        self._size += len(data)
        refused = self.status is not None and not 200 <= self.status < 300
        if refused and self._size > MAX_REFUSAL_BYTES:
            self._refused(at_s)
        elif self._size > MAX_PLAIN_BYTES:
            self.fail("malformed", f"the body is longer than {MAX_PLAIN_BYTES >> 20} MiB", at_s)

    def _refused(self, at_s: float) -> None:
        body = _shown(b"".join(self._blocks))
        self.fail("status", f"HTTP {self.status}" + (f": {body}" if body else ""), at_s)

    def _plain(self, body: bytes, at_s: float) -> None:
        chunk = read_chunk(body)
        if chunk is None:
            self.fail("malformed", f"the body is no JSON object: {_shown(body)!r}", at_s)
        elif chunk.error is not None:
            self.fail("error_event", encodable(chunk.error.message)[:SHOWN_CHARACTERS], at_s)
        elif self._asked_stream:
            self.fail("malformed", "asked for a stream it gave a plain answer", at_s)
        elif not chunk.deltas:
            self.fail("empty", "a success without a choice", at_s)
        else:
            self._chunk(chunk, at_s)
            if self.chunk_s and self.counted_tokens:
                self.chunk_tokens[:] = [self.counted_tokens]
            self.whole = True
            self._succeed(at_s)


def encodable(text: str) -> str:
    """Text that UTF-8 can hold: surrogate pairs that came apart are joined, half ones replaced."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _shown(data: bytes) -> str:
    return data.decode("utf-8", "replace")[:SHOWN_CHARACTERS]
