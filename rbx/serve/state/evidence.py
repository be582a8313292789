"""What was seen, written into the rows of a twin that thought otherwise."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from rbx.config.pool import EngineLimits
from rbx.engine import snapshot_columns as snap
from rbx.errors import EngineError
from rbx.serve.state.twin import MAX_LAG_TOKENS

FOREIGN = ""


@dataclass
class OwnRequest:
    """One request of ours: what it was sent with, and how many tokens it has shown.

    One that does not ``streams`` shows none before its end, and its twin goes by the clock.
    """

    prompt_tokens: int
    cap_tokens: int
    predicted_tokens: int
    cached_prefix_tokens: int
    streams: bool = True
    seen_tokens: int = 0

    def row(self) -> list[int]:
        """A waiting row of a snapshot."""
        row = [0] * snap.N_REQUEST
        row[snap.PROMPT] = self.prompt_tokens
        row[snap.CAP] = self.cap_tokens
        row[snap.PREDICTED] = self.predicted_tokens
        row[snap.CACHED] = self.cached_prefix_tokens
        row[snap.GENERATED] = min(self.seen_tokens, self.cap_tokens - 1)
        return row


def own_request(
    request: str,
    prompt_tokens: int,
    cap_tokens: int,
    predicted_tokens: int,
    cached_prefix_tokens: int,
    max_model_len: int,
    *,
    streams: bool = True,
) -> OwnRequest:
    """What was sent under the name ``request``, its cap cut to the context.

    Raises ``EngineError`` with the field for an empty name and for sizes that no engine would take.
    """
    room = max_model_len - prompt_tokens
    if not request:
        raise EngineError("a dispatched request has an empty name; give each one its own")
    if prompt_tokens < 1 or room < 1:
        raise EngineError(
            f"request {request!r}: prompt_tokens is {prompt_tokens}; it must be at least 1 and leave "
            f"room for a token in max_model_len = {max_model_len}"
        )
    if cap_tokens < 1 or predicted_tokens < 0:
        raise EngineError(
            f"request {request!r}: cap_tokens is {cap_tokens} and predicted_tokens {predicted_tokens}; give "
            "at least 1, and at least 0"
        )
    if not 0 <= cached_prefix_tokens < prompt_tokens:
        raise EngineError(
            f"request {request!r}: cached_prefix_tokens is {cached_prefix_tokens} of {prompt_tokens}; at "
            "least one prompt token must be computed"
        )
    return OwnRequest(prompt_tokens, min(cap_tokens, room), predicted_tokens, cached_prefix_tokens, streams)


@dataclass(frozen=True)
class TypicalRequest:
    """Stands for each request of somebody else; found running, it has given half its answer."""

    prompt_tokens: int = 500
    output_tokens: int = 200

    def __post_init__(self) -> None:
        """Refuse sizes out of range."""
        for name in ("prompt_tokens", "output_tokens"):
            if getattr(self, name) < 1:
                raise EngineError(f"{name} of a typical request is {getattr(self, name)}; give at least 1")

    def row(self, limits: EngineLimits) -> list[int]:
        """A waiting row, cut to the context of the instance."""
        output = min(self.output_tokens, limits.max_model_len - 1)
        prompt = min(self.prompt_tokens, limits.max_model_len - output)
        return OwnRequest(prompt, output, output, 0).row()


@dataclass(eq=False)
class Line:
    """One row on its way into a snapshot: whose it is ("" for a foreign one) and its columns."""

    request: str
    row: list[int]

    def queue(self) -> Line:
        """As a waiting row: nothing is computed, no block is held."""
        waits = (snap.COMPUTED, snap.BLOCKS, snap.PREFILLING, snap.YIELDS, snap.YIELDS_AHEAD)
        for column in waits:
            self.row[column] = 0
        return self

    def decode(self, generated_tokens: int, stepping: bool, ahead: bool, block_size: int) -> bool:
        """As a decoding row with a share in every batch in flight; False if it would have no token left."""
        row = self.row
        generated = min(generated_tokens, row[snap.CAP] - 1)
        row[snap.PREFILLING] = 0
        row[snap.YIELDS] *= int(stepping)
        row[snap.YIELDS_AHEAD] *= int(ahead)
        if not row[snap.YIELDS_AHEAD]:
            row[snap.YIELDS] = int(stepping)
        if row[snap.YIELDS] or not stepping:
            # Without a share in the batch ahead it would be taken for one that ends with the running step.
            row[snap.YIELDS_AHEAD] = int(ahead and generated + row[snap.YIELDS] < row[snap.CAP])
        coming = row[snap.YIELDS] + row[snap.YIELDS_AHEAD]
        row[snap.GENERATED] = generated
        row[snap.COMPUTED] = row[snap.PROMPT] + generated + coming - 1
        row[snap.BLOCKS] = -(-row[snap.COMPUTED] // block_size)
        return coming > 0 or generated > 0


@dataclass
class Lines:
    """The rows of one instance by what they do: decoding, in the middle of the prompt, waiting."""

    limits: EngineLimits
    own: Mapping[str, OwnRequest]
    stepping: bool
    ahead: bool
    decoding: list[Line]
    partial: Line | None
    waiting: list[Line]

    @classmethod
    def of(
        cls,
        limits: EngineLimits,
        own: Mapping[str, OwnRequest],
        stepping: bool,
        ahead: bool,
        lines: Iterable[Line],
        running: int,
    ) -> Lines:
        """Sorted by their columns; the first ``running`` lines are the running list in order."""
        every = list(lines)
        partial = next((line for line in every[:running] if line.row[snap.PREFILLING]), None)
        decoding = [line for line in every[:running] if line is not partial]
        waiting = [line.queue() for line in every[running:]]
        return cls(limits, own, stepping, ahead, decoding, partial, waiting)

    def correct(self) -> None:
        """Bring the rows of our requests to what they have shown.

        A request that has shown tokens decodes. One that has shown none, although it streams and its twin
        has given several, goes back to the front of the queue; so does whoever finds no seat. One that does
        not stream and has ended in the twin alone is about to end.
        """
        back: list[Line] = []
        partial, self.partial = self.partial, None
        unfinished = [*([partial] if partial else []), *self.waiting]
        promoted = [line for line in unfinished if self._ahead_of_twin(line)]
        decoding, self.decoding = self.decoding, []
        for line in decoding:
            request = self.own.get(line.request)
            given = line.row[snap.GENERATED]
            if (
                request is not None
                and request.streams
                and not 0 <= given - request.seen_tokens < MAX_LAG_TOKENS
            ):
                given = request.seen_tokens
            kept = given > 0 or request is None or line.row[snap.GENERATED] < MAX_LAG_TOKENS
            (self.decoding if kept and self._decode(line, given) else back).append(line)
        known = {line.request for line in (*decoding, *unfinished)}
        shown = [(line, self.own[line.request].seen_tokens) for line in promoted]
        for name, request in self.own.items():
            if name not in known:
                given = request.seen_tokens if request.streams else request.cap_tokens
                shown.append((Line(name, request.row()), given))
        for line, given in shown:
            (self.decoding if self._decode(line, given) else back).append(line)
        self.partial = None if partial in promoted else partial
        self.waiting = [line for line in self.waiting if line not in promoted]
        self._seat(back)

    def set_foreign(self, running: int, waiting: int, typical: TypicalRequest, blocks: int | None) -> None:
        """Make the foreign rows as many as given; ``blocks`` is what each running one holds, if known."""
        partial = 1 if self.partial is not None and self.partial.request == FOREIGN else 0
        foreign = [line for line in self.decoding if line.request == FOREIGN]
        self.decoding = [line for line in self.decoding if line.request != FOREIGN]
        running -= partial
        foreign.sort(key=lambda line: line.row[snap.GENERATED])
        foreign = foreign[: max(0, running)]
        while len(foreign) < running:
            line = Line(FOREIGN, typical.row(self.limits))
            line.row[snap.GENERATED] = line.row[snap.CAP] // 2
            foreign.append(line)
        for line in foreign:
            if blocks is not None:
                tokens = blocks * self.limits.block_size - self.limits.block_size // 2
                line.row[snap.PROMPT] = min(
                    max(1, tokens - line.row[snap.GENERATED]), self.limits.max_model_len - line.row[snap.CAP]
                )
        self.decoding[:0] = [line for line in foreign if self._decode(line, line.row[snap.GENERATED])]
        queued = [line for line in self.waiting if line.request == FOREIGN]
        surplus = {id(line) for line in queued[waiting:]}
        self.waiting = [line for line in self.waiting if id(line) not in surplus]
        self.waiting += [Line(FOREIGN, typical.row(self.limits)) for _ in range(waiting - len(queued))]
        self._seat([])

    @property
    def running(self) -> list[Line]:
        """The running list in order."""
        return [*self.decoding, *([self.partial] if self.partial else [])]

    def _decode(self, line: Line, generated: int) -> bool:
        return line.decode(generated, self.stepping, self.ahead, self.limits.block_size)

    def _ahead_of_twin(self, line: Line) -> bool:
        request = self.own.get(line.request)
        return request is not None and request.seen_tokens > line.row[snap.GENERATED]

    def _seat(self, back: list[Line]) -> None:
        """Keep as many running rows as there are seats.

        Foreign ones give way first, then those that have shown no token, then the newest.
        """
        surplus = len(self.running) - self.limits.max_num_seqs
        newest_first = self.running[::-1]
        for line in sorted(newest_first, key=self._sureness)[: max(0, surplus)]:
            if line is self.partial:
                self.partial = None
            else:
                self.decoding.remove(line)
                line.row[snap.PREEMPTIONS] += 1
            if line.request != FOREIGN:
                back.insert(0, line)
        self.waiting[:0] = [line.queue() for line in back]

    def _sureness(self, line: Line) -> int:
        request = self.own.get(line.request)
        return 0 if request is None else 1 + (request.seen_tokens > 0)
