"""What an instance is doing, as a router can tell from its own traffic and the gauges alone.

A twin of the engine (``twin``) is fed with every dispatch and kept in step with the tokens that come
back; what it gets wrong is overwritten by what was seen (``evidence``). Order of the queue, prefill
progress, blocks and batches in flight are the twin's.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from rbx.engine import instance_columns as inst
from rbx.engine import snapshot_columns as snap
from rbx.engine.instance_profile import InstanceProfile
from rbx.engine.instance_snapshot import InstanceSnapshot
from rbx.engine.snapshot_counts import N_LOAD
from rbx.engine.state import EngineState, Floats, Ints
from rbx.errors import EngineError
from rbx.serve.state import twin
from rbx.serve.state.evidence import FOREIGN, Line, Lines, OwnRequest, TypicalRequest, own_request
from rbx.serve.state.gauges import MOST_REQUESTS
from rbx.serve.state.source import StateFlag, StateReading
from rbx.serve.state.twin_load import load_at

_GONE = None  # the slot of a request that ends with the running step
MOST_QUEUED_OTHERS = 10_000  # rows: their work is minutes of any instance, and each gauge costs 14 ms
_NO_STARTS: Floats = np.zeros(0)
_NO_STEPS: Ints = np.zeros((0, snap.N_STEP), dtype=np.int64)


@dataclass(frozen=True)
class ShadowSettings:
    """Delays between router and engine, and what stands for traffic of others.

    ``dispatch_delay_s`` passes from sending a request to its place in the engine's queue,
    ``token_delay_s`` from the end of a step to seeing its tokens. A request counts as possibly alive
    ``gauge_lag_s`` after its end when gauges are compared with our own requests. Times that run back by
    up to ``reorder_s`` are late news; further back, the clock has jumped. Raises ``EngineError`` for
    values that are not finite or negative.
    """

    dispatch_delay_s: float = 0.0
    token_delay_s: float = 0.0
    gauge_lag_s: float = 0.1
    reorder_s: float = 1.0
    typical: TypicalRequest = field(default_factory=TypicalRequest)

    def __post_init__(self) -> None:
        """Refuse values out of range."""
        for name in ("dispatch_delay_s", "token_delay_s", "gauge_lag_s", "reorder_s"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0.0):
                raise EngineError(f"{name} is {value}; it must be finite and not negative")


_DEFAULTS = ShadowSettings()


class Shadow:
    """The state of one instance, pieced together from events; a ``StateSource``.

    Times are of one monotonic clock. Raises ``EngineError`` for values that can't be, which changes
    nothing. What is merely out of order is ignored and counted in ``ignored``: requests that are unknown
    or dispatched twice, token counts that go back. A clock that jumps back restarts the twin from the
    rows it had. Not safe for several threads at once.
    """

    def __init__(self, profile: InstanceProfile, settings: ShadowSettings = _DEFAULTS) -> None:
        """An idle instance with these limits and step times."""
        self._profile, self._settings = profile, settings
        self._own: dict[str, OwnRequest] = {}
        self._slot_of: dict[str, int] = {}
        self._ended_s: deque[float] = deque()
        self._ignored: Counter[str] = Counter()
        self._newest_s = 0.0
        self._version = 0
        self._held_elsewhere = 0
        self._names: list[str | None] = []
        self._counted: Ints = np.zeros(N_LOAD, dtype=np.int64)
        self._counted_s, self._counted_until_s = 0.0, -math.inf
        self._state: EngineState
        self._load([], 0, 0.0, _NO_STARTS, _NO_STEPS)

    @property
    def outstanding(self) -> int:
        """Requests sent and not finished."""
        return len(self._own)

    @property
    def ignored(self) -> Mapping[str, int]:
        """Events that changed nothing or not all that they said, and jumps of the clock, by reason."""
        return dict(self._ignored)

    def dispatched(
        self,
        request: str,
        at_s: float,
        prompt_tokens: int,
        cap_tokens: int,
        predicted_tokens: int = 0,
        cached_prefix_tokens: int = 0,
        *,
        streams: bool = True,
    ) -> None:
        """A request was sent; ``cap_tokens`` is cut to the context, predicted 0 stands for no prediction.

        One that does not ``streams`` shows no token: it is taken to go by the clock until its end is told.
        """
        sizes = prompt_tokens, cap_tokens, predicted_tokens, cached_prefix_tokens
        own = own_request(request, *sizes, self._profile.limits.max_model_len, streams=streams)
        now_s = self._time(at_s)
        if request in self._own:
            self._ignored["dispatched twice"] += 1
            return
        if len(self._names) == len(self._watched):
            self._correct(self._heard(now_s))
        slot = len(self._names)
        self._own[request] = own
        self._slot_of[request] = slot
        self._names.append(request)
        self._watched[slot], self._seen[slot] = _watched(own), 0
        row = np.array(own.row(), dtype=np.int64)
        twin.join(self._state, slot, row, now_s + self._settings.dispatch_delay_s)

    def tokens(self, request: str, generated_total: int, at_s: float) -> None:
        """The stream has shown ``generated_total`` tokens so far; more than the cap count as the cap."""
        if generated_total < 0:
            raise EngineError(
                f"generated_total of request {request!r} is {generated_total}; it can't be negative"
            )
        now_s, own = self._time(at_s), self._own.get(request)
        if own is None:
            self._ignored["tokens of an unknown request"] += 1
            return
        if generated_total <= own.seen_tokens:
            if generated_total < own.seen_tokens:
                self._ignored["token count went back"] += 1
            return
        own.seen_tokens = min(generated_total, own.cap_tokens)
        slot, heard_s = self._slot_of[request], self._heard(now_s)
        if not twin.see_token(self._state, self._watched, self._seen, slot, own.seen_tokens, heard_s):
            twin.end_running_step(self._state, heard_s)
            if twin.given_tokens(self._state, slot) < own.seen_tokens:
                self._correct(heard_s)

    def finished(self, request: str, at_s: float) -> None:
        """The answer is complete; report its last token by ``tokens`` first."""
        now_s = self._time(at_s)
        own = self._own.pop(request, None)
        if own is None:
            self._ignored["end of an unknown request"] += 1
            return
        if not own.streams:
            twin.see_end(self._state, self._watched, self._heard(now_s))
        slot = self._slot_of.pop(request)
        self._watched[slot] = twin.NOTHING
        self._names[slot] = _GONE
        self._ended_s.append(now_s)
        if not twin.leave(self._state, slot):
            self._correct(self._heard(now_s))

    def cancelled(self, request: str, at_s: float) -> None:
        """The request was given up, by the client or after a failure; the engine drops it."""
        self.finished(request, at_s)

    failed = cancelled

    def gauges(
        self, running: int, waiting: int, kv_usage: float, at_s: float, asked_s: float | None = None
    ) -> None:
        """Counts and the used share of the KV blocks, in [0, 1], as scraped at ``at_s``.

        They may be as old as ``asked_s``, when the scrape was sent; requests ended since may be in them.

        More requests than ours are shown as rows of the typical size that share the blocks which ours
        do not hold. Where ours alone contradict the usage, the free blocks follow the gauge. Of others
        at most ``MOST_QUEUED_OTHERS`` are shown waiting; ``ignored`` counts the gauges that had more.
        """
        for count in (running, waiting):
            if not (0 <= count <= MOST_REQUESTS and count == int(count)):
                raise EngineError(
                    f"running is {running} and waiting {waiting}; both must be whole numbers from 0 to "
                    f"{MOST_REQUESTS:,}"
                )
        if not 0.0 <= kv_usage <= 1.0:
            raise EngineError(f"kv_usage is {kv_usage}; it is a share in [0, 1]")
        now_s = self._time(at_s)
        if not all(own.streams for own in self._own.values()):
            twin.follow(self._state, self._watched, self._heard(now_s))  # or each look would replay all of it
        taken_s = now_s if asked_s is None else min(asked_s, now_s)
        while self._ended_s and self._ended_s[0] < taken_s - self._settings.gauge_lag_s:
            self._ended_s.popleft()
        foreign = max(0, running + waiting - len(self._own) - len(self._ended_s))
        if foreign == 0 and self._agrees(kv_usage):
            return
        lines, starts, steps = self._lines(self._heard(now_s))
        lines.correct()
        queued = sum(line.request != FOREIGN for line in lines.waiting)
        foreign_waiting = min(foreign, max(0, waiting - queued))
        foreign_running = min(foreign - foreign_waiting, self._profile.limits.max_num_seqs)
        if foreign_waiting > MOST_QUEUED_OTHERS:
            self._ignored["waiting requests of others beyond the most"] += 1
            foreign_waiting = MOST_QUEUED_OTHERS
        held = sum(line.row[snap.BLOCKS] for line in lines.running if line.request != FOREIGN)
        beyond = round(kv_usage * self._profile.limits.kv_blocks) - held
        each = max(1, beyond // foreign_running) if foreign_running else None
        lines.set_foreign(foreign_running, foreign_waiting, self._settings.typical, each)
        self._held_elsewhere = 0 if foreign_running else self._contradiction(beyond, len(lines.running))
        self._reload(lines, self._heard(now_s), starts, steps)

    def forget_gauges(self, at_s: float) -> None:
        """What gauges have said counts no more: nobody else is there, and blocks are those of the rows."""
        heard_s = self._heard(self._time(at_s))
        if FOREIGN not in self._names and self._held_elsewhere == 0:
            return
        lines, starts, steps = self._lines(heard_s)
        lines.correct()
        lines.set_foreign(0, 0, self._settings.typical, None)
        self._held_elsewhere = 0
        self._reload(lines, heard_s, starts, steps)

    def load(self, now_s: float) -> Ints | None:
        """What ``newest(now_s)`` counts up to, (snapshot_counts.N_LOAD,), for a tenth of its price.

        Overwritten by the next call. None where ``newest`` itself must be asked: something has to be
        corrected first, or ``now_s`` is before what was heard or asked last, or is no time.
        """
        if self._counted_s <= now_s < self._counted_until_s:
            return self._counted
        if not max(self._newest_s, self._counted_s) <= now_s < math.inf:
            return None
        until_s = load_at(
            self._state,
            self._watched,
            self._seen,
            len(self._own),
            now_s,
            self._settings.token_delay_s,
            self._counted,
        )
        self._counted_s, self._counted_until_s = now_s, until_s
        return None if until_s == -math.inf else self._counted

    def snapshot(self, now_s: float) -> InstanceSnapshot:
        """The best guess of the instance at ``now_s``, or at the newest event if that is later."""
        return self.newest(now_s).snapshot

    def newest(self, now_s: float) -> StateReading:
        """``snapshot`` with the requests' names and what it had to make up; its age is 0."""
        stamp_s = self._stamp(now_s)
        if twin.strays(self._state, self._watched, self._seen):
            self._newest_s = stamp_s  # a correction is an event of its own
            self._correct(self._heard(stamp_s))
        guess = twin.projection(self._state, self._watched, stamp_s, self._settings.token_delay_s)
        rows, slots, running, starts, steps = twin.described(guess, stamp_s)
        names = [self._names[slot] for slot in slots.tolist()]
        if len(names) - names.count(FOREIGN) - names.count(_GONE) < len(self._own):
            lines = self._sorted(rows, names, running, starts)
            lines.correct()
            running = len(lines.running)
            shown = [*lines.running, *lines.waiting]
            rows, names = _table(shown), [line.request for line in shown]
        gone = [k for k, name in enumerate(names) if name is _GONE] if _GONE in names else []
        for k in gone:  # whatever its cap was, it ends with the batches in flight
            coming = rows[k, snap.YIELDS] + rows[k, snap.YIELDS_AHEAD]
            rows[k, snap.CAP] = rows[k, snap.GENERATED] + max(1, coming)
        total = self._profile.limits.kv_blocks
        free = min(max(0, int(guess.counts[0, inst.FREE_BLOCKS])), total)
        self._version += 1
        seen = InstanceSnapshot(self._version, stamp_s, self._profile, free, running, rows, starts, steps)
        flags = StateFlag.GUESSED
        flags |= StateFlag.FOREIGN if FOREIGN in names else StateFlag.EXACT
        flags |= StateFlag.BLOCKS_CORRECTED if self._held_elsewhere else StateFlag.EXACT
        known = (FOREIGN if name is _GONE else name for name in names) if gone else names
        return StateReading(seen, 0.0, tuple(known), flags)

    def _agrees(self, kv_usage: float) -> bool:
        """Whether the twin shows nobody else and about as many used blocks."""
        counts, total = self._state.counts[0], self._profile.limits.kv_blocks
        used = total - int(counts[inst.FREE_BLOCKS])
        beyond = self._contradiction(round(kv_usage * total) - used, int(counts[inst.RUNNING]))
        return beyond == 0 and self._held_elsewhere == 0 and FOREIGN not in self._names

    def _contradiction(self, beyond: int, running: int) -> int:
        """Blocks that are used beyond ours; each of ours may be off by one, and the gauge is a little old.

        At most so many that a prompt of full length still fits once ours have left: nobody else will be
        seen to free them.
        """
        limits = self._profile.limits
        if abs(beyond) <= running + limits.kv_blocks // 100:
            return 0
        return min(beyond, limits.kv_blocks - -(-limits.max_model_len // limits.block_size))

    def _heard(self, now_s: float) -> float:
        return max(0.0, now_s - self._settings.token_delay_s)

    def _time(self, at_s: float) -> float:
        """The time of an event, not before that of an earlier one."""
        now_s = self._stamp(at_s)
        self._newest_s = now_s
        self._counted_until_s = -math.inf
        return now_s

    def _stamp(self, at_s: float) -> float:
        if not (math.isfinite(at_s) and at_s >= 0.0):
            raise EngineError(f"the time of an event is {at_s} s; it must be finite and not negative")
        if at_s < self._newest_s - self._settings.reorder_s:
            self._ignored["clock jumped back"] += 1
            self._restart(at_s)
        return max(at_s, self._newest_s)

    def _restart(self, at_s: float) -> None:
        """The rows as they were, at another time, with no batch in flight."""
        lines, _, _ = self._lines(self._newest_s)
        lines.stepping = lines.ahead = False
        self._newest_s = at_s
        self._ended_s.clear()
        lines.correct()
        self._reload(lines, at_s, _NO_STARTS, _NO_STEPS)

    def _correct(self, heard_s: float) -> None:
        lines, starts, steps = self._lines(heard_s)
        lines.correct()
        self._reload(lines, heard_s, starts, steps)

    def _lines(self, heard_s: float) -> tuple[Lines, Floats, Ints]:
        """The twin's rows at ``heard_s`` without those that have left; only to be loaded again."""
        twin.follow(self._state, self._watched, heard_s)
        rows, slots, running, starts, steps = twin.described(self._state, heard_s)
        return self._sorted(rows, [self._names[slot] for slot in slots], running, starts), starts, steps

    def _sorted(self, rows: Ints, names: list[str | None], running: int, starts: Floats) -> Lines:
        lines = zip(names, rows.tolist(), strict=True)
        stepping = len(starts) > 0 and not math.isnan(starts[0])
        kept = [Line(name, row) for name, row in lines if name is not _GONE]
        gone = sum(name is _GONE for name in names[:running])
        ahead = len(starts) > int(stepping)
        return Lines.of(self._profile.limits, self._own, stepping, ahead, kept, running - gone)

    def _reload(self, lines: Lines, at_s: float, starts: Floats, steps: Ints) -> None:
        running = lines.running
        self._load([*running, *lines.waiting], len(running), at_s, starts, steps)

    def _load(self, lines: list[Line], running: int, at_s: float, starts: Floats, steps: Ints) -> None:
        """Start the twin anew from these rows."""
        rows = _table(lines)
        total = self._profile.limits.kv_blocks
        elsewhere = self._held_elsewhere if running else min(0, self._held_elsewhere)
        free = min(max(0, total - int(rows[:running, snap.BLOCKS].sum()) - elsewhere), total)
        capacity = max(64, 2 * len(lines))
        profile = self._profile
        self._state = twin.start(
            profile.limits_row, profile.coefficients_row, capacity, at_s, free, running, rows, starts, steps
        )
        self._names = [line.request for line in lines]
        self._slot_of = {line.request: slot for slot, line in enumerate(lines) if line.request != FOREIGN}
        self._counted_s, self._counted_until_s = 0.0, -math.inf
        self._watched = np.zeros(capacity, dtype=np.int8)
        self._seen = np.zeros(capacity, dtype=np.int64)
        for request, slot in self._slot_of.items():
            own = self._own[request]
            self._watched[slot], self._seen[slot] = _watched(own), own.seen_tokens


def _table(lines: list[Line]) -> Ints:
    return np.array([line.row for line in lines], dtype=np.int64).reshape(-1, snap.N_REQUEST)


def _watched(own: OwnRequest) -> int:
    return twin.TOKENS if own.streams else twin.END_ALONE
