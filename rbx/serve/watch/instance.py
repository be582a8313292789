"""One instance of the pool: our requests there, and what its pages have said."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rbx.config.gateway import Watch
from rbx.engine.instance_profile import InstanceProfile
from rbx.engine.state import Ints
from rbx.errors import EngineError
from rbx.serve.state.exact import ExactState
from rbx.serve.state.gauges import MOST_REQUESTS, EngineGauges, parse_gauges
from rbx.serve.state.ladder import LEDGER, BestState, Rung, StateLadder
from rbx.serve.state.shadow import Shadow
from rbx.serve.watch.lifetime import Lifetime

SHADOW = "shadow"
EXACT_AGE_S = 1.0  # an engine that works publishes at every step; an older state knows less than the shadow
SAME_MOMENT_S = 1e-3
STILL_S = 0.25  # between seeing a token and its being counted, or the other way round


@dataclass
class _Sent:
    at_s: float
    prompt_tokens: int
    cap_tokens: int
    predicted_tokens: int
    streams: bool
    tokens: int = 0


class InstanceWatch:
    """Follows one instance; no clock and no socket, times are of one monotonic clock.

    Our own requests are known from dispatch to end whatever the instance says, or does not say. A server
    that is found to have been restarted has lost the requests sent to it before it was last seen in its
    old life; one that gives a token after all is taken in again.
    """

    def __init__(
        self, profile: InstanceProfile, exact: Sequence[tuple[str, ExactState]], config: Watch, now_s: float
    ) -> None:
        """Know nothing yet; ``exact`` are published states by name, the best first."""
        self._profile, self._exact, self.config = profile, tuple(exact), config
        self._sent: dict[str, _Sent] = {}
        self._lost: dict[str, _Sent] = {}
        self._since_s = now_s
        self._dispatched = 0
        self._life: Lifetime | None = None
        self._uncounted_s = math.inf  # when the first token was seen that no page has counted
        self._counted_s = self._gauged_s = self._token_s = self._answered_s = self._refused_s = -math.inf
        self._rose_s = -math.inf  # when a page of this life last counted more than the one before
        self._gauges_count = False
        self._fallbacks: Counter[str] = Counter()
        self.restarts = 0
        self._shadow = Shadow(profile)
        self._ladder = self._new_ladder()
        self._best: BestState | None = None
        self._best_at_s = -math.inf

    @property
    def in_flight(self) -> int:
        """Our requests there that have not ended."""
        return len(self._sent)

    @property
    def fallbacks(self) -> Mapping[str, int]:
        """How often a source was passed over, by its name and the reason (``shadow: stale``)."""
        found = self._fallbacks.copy()
        for (name, reason), times in self._ladder.fallbacks.items():
            found[f"{name}: {reason.value}"] += times
        return found

    def dispatched(
        self,
        request: str,
        now_s: float,
        prompt_tokens: int,
        cap_tokens: int,
        predicted_tokens: int,
        *,
        streams: bool = True,
    ) -> None:
        """A request is on its way; a name that is there already changes nothing.

        Unless it ``streams`` it shows no token before its end.
        Raises ``EngineError`` for sizes that no engine would take.
        """
        if request in self._sent:
            return
        self._enter(request, _Sent(now_s, prompt_tokens, cap_tokens, predicted_tokens, streams), now_s)
        self._dispatched += 1

    def tokens(self, request: str, now_s: float, output_tokens: int) -> None:
        """``request`` has shown so many tokens; unknown names change nothing."""
        lost = self._lost.pop(request, None)
        if lost is not None:
            self._enter(request, lost, now_s)
        sent = self._sent.get(request)
        if sent is not None:
            self._shadow.tokens(request, output_tokens, now_s)
            sent.tokens = max(sent.tokens, output_tokens)
            self._token_s = max(self._token_s, now_s)
            if now_s > self._counted_s + STILL_S:
                self._uncounted_s = min(self._uncounted_s, now_s)

    def ended(self, request: str, now_s: float) -> None:
        """``request`` has finished, failed or been given up; unknown names change nothing."""
        self._lost.pop(request, None)
        if self._sent.pop(request, None) is not None:
            self._shadow.finished(request, now_s)
            self._drop(request)

    def page(self, text: str, asked_s: float, now_s: float) -> None:
        """Take in a page of ``/metrics`` that was asked for at ``asked_s``.

        Several engines behind one address count as one. Raises ``EngineError`` as ``parse_gauges`` does, and
        for a page that stands still; neither changes anything.
        """
        engines = parse_gauges(text, now_s)
        life = Lifetime.of(text)
        if not life.stands_still(self._life):
            self._counted_s, self._uncounted_s = now_s, math.inf
        elif self._sent and asked_s > self._uncounted_s + STILL_S:
            raise EngineError("/metrics counts nothing more, although answers go on; its page is an old one")
        if self._life is not None and self._life.ended_before(life):
            self._restarted(now_s)
            self._rose_s = -math.inf
        elif life.has_counted_since(self._life):
            self._rose_s = now_s
        self._life = life if self._life is None else self._life.followed_by(life)
        self._fold(engines, asked_s, now_s)
        self._best = None

    def probed(self, now_s: float, answered: bool) -> None:
        """A probe was answered, or the server has said that it can't serve."""
        if answered:
            self._answered_s = now_s
        else:
            self._refused_s = now_s

    def ready(self, now_s: float) -> bool:
        """Whether a probe or a token has shown within ``max_age_s`` that it serves, and no refusal since."""
        shown_s = max(self._answered_s, self._token_s)
        return shown_s >= now_s - self.config.max_age_s and shown_s > self._refused_s

    def ages_s(self, now_s: float) -> Mapping[str, float]:
        """How long ago each signal was had last, infinite for never."""
        heard = {"gauges": self._gauged_s, "tokens": self._token_s, "probe": self._answered_s}
        return {name: max(0.0, now_s - heard_s) for name, heard_s in heard.items()}

    def counted_s(self, now_s: float) -> float:
        """When its page last counted more tokens or requests; −inf where the page is old or never has.

        A server that never counts may be one that keeps no statistics, so its silence tells nothing.
        """
        return self._rose_s if now_s - self._gauged_s <= self.config.max_age_s else -math.inf

    def best(self, now_s: float) -> BestState:
        """The state to decide by; it may be ``SAME_MOMENT_S`` old where nothing was sent or ended since."""
        if self._best is None or not 0.0 <= now_s - self._best_at_s < SAME_MOMENT_S:
            self._forget_old_gauges(now_s)
            self._best, self._best_at_s = self._ladder.best(now_s), now_s
        return self._best

    def load(self, now_s: float) -> Ints | None:
        """What ``best(now_s)`` counts up to, without making it, (snapshot_counts.N_LOAD,).

        None where only ``best`` can tell: a state is published, or the shadow has none to give. Overwritten
        by the next call.
        """
        if self._exact or now_s < self._best_at_s:
            return None
        self._forget_old_gauges(now_s)
        return self._shadow.load(now_s)

    def _forget_old_gauges(self, now_s: float) -> None:
        if self._gauges_count and now_s - self._gauged_s > self.config.max_age_s:
            self._shadow.forget_gauges(now_s)
            self._gauges_count = False

    def guess_age_s(self, now_s: float) -> float:
        """How long ago the instance itself was heard of by gauges and tokens."""
        return max(0.0, now_s - max(self._gauged_s, self._token_s, self._since_s))

    def age_s(self, best: BestState, now_s: float) -> float:
        """How long ago the instance itself was heard of by what ``best`` rests on."""
        if best.rung in (SHADOW, LEDGER):
            return self.guess_age_s(now_s)
        return max(0.0, now_s - best.reading.snapshot.stamp_s)

    def received(self, best: BestState | None = None) -> int:
        """How many of our dispatches ``best`` shows or has outlived; what ``load`` counts shows all."""
        return self._dispatched - (0 if best is None else len(best.unseen.dispatched_s))

    def _enter(self, request: str, sent: _Sent, now_s: float) -> None:
        sizes = sent.prompt_tokens, sent.cap_tokens, sent.predicted_tokens
        self._shadow.dispatched(request, now_s, *sizes, streams=sent.streams)
        self._ladder.dispatched(request, now_s, *sizes)
        for _, source in self._exact:
            source.dispatched(request, sent.predicted_tokens)
        self._sent[request] = sent
        self._best = None

    def _drop(self, request: str) -> None:
        self._ladder.ended(request)
        for _, source in self._exact:
            source.ended(request)
        self._best = None

    def _fold(self, engines: Sequence[EngineGauges], asked_s: float, now_s: float) -> None:
        running = min(sum(engine.running for engine in engines), MOST_REQUESTS)
        waiting = min(sum(engine.waiting for engine in engines), MOST_REQUESTS)
        usage = sum(engine.kv_usage for engine in engines) / len(engines)
        self._shadow.gauges(running, waiting, min(usage, 1.0), now_s, asked_s)
        self._gauged_s, self._gauges_count = asked_s, True

    def _restarted(self, now_s: float) -> None:
        """Begin anew with the requests sent since the old life was last seen."""
        self.restarts += 1
        last_seen_s, kept = self._gauged_s, self._sent
        for (name, reason), times in self._ladder.fallbacks.items():
            self._fallbacks[f"{name}: {reason.value}"] += times
        self._shadow, self._sent = Shadow(self._profile), {}
        self._ladder = self._new_ladder()
        for request, sent in kept.items():
            if sent.at_s > last_seen_s:
                self._enter(request, sent, sent.at_s)
                self._shadow.tokens(request, sent.tokens, now_s)
            else:
                self._lost[request] = sent
                self._drop(request)

    def _new_ladder(self) -> StateLadder:
        oldest_s = self.config.max_age_s
        exact = [Rung(name, source, min(EXACT_AGE_S, oldest_s)) for name, source in self._exact]
        return StateLadder(self._profile, [*exact, Rung(SHADOW, self._shadow, oldest_s)])
