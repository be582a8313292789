"""Requests of one cell that are asked of one model after another, in virtual time.

An answer of any model but the last is held back, scored and then shown whole, or thrown away for the next
model's; a last model's answer is streamed as it comes. Every attempt is served and paid for in full. One
scorer works through the answers in the order of their ends.

The oracle boundary holds: an answer's score is made from its text, and is looked at here once the engine has
given its last token; what the policy sees is who is to be asked now.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rbx.config.experiment import Telemetry
from rbx.engine.simulator import EngineSim
from rbx.errors import ConfigError
from rbx.heads.encoder import EncoderCost, encoder_cost
from rbx.heads.routers.cascade.chain import Chain
from rbx.policy.pool_state import PoolShape
from rbx.policy.request_table import RequestTable
from rbx.scheduler.runtime import Decision

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class Ended(NamedTuple):
    """What became of N requests, (N,) each: when a held-back answer was shown, NaN where the last model's was
    streamed; what answers that were thrown away cost; how many models were asked; and what all its
    decisions took: waiting for a batch, reading the prompt, deciding."""

    shown_s: Floats
    thrown_away_usd: Floats
    models_asked: Ints
    batch_wait_s: Floats
    encode_s: Floats
    score_s: Floats


class CascadeRun:
    """Follows each request from model to model; ``table`` is told whom its next decision must choose."""

    def __init__(
        self, chain: Chain, answer_score: Floats, table: RequestTable, shape: PoolShape, network_s: float
    ) -> None:
        """``answer_score`` (N, M) by request; the table's ``router_score`` and ``budget_usd`` are written."""
        n = len(answer_score)
        self._chain, self._answer_score, self._table = chain, answer_score, table
        self._shape, self._network_s = shape, network_s
        self._reading: EncoderCost = encoder_cost("static")
        self._in_flight: dict[int, int] = {}  # request to slot, where an answer must be scored
        self._cut: set[int] = set()
        self._going_on: deque[tuple[float, int]] = deque()
        self._scorer_free_s = 0.0
        self.came_s = np.full(n, np.nan)  # to be decided, the last time
        self._paid_usd = np.zeros(n)  # for the answer at hand
        self._asked = np.zeros(n, dtype=np.int64)
        took_s = (np.zeros(n), np.zeros(n), np.zeros(n))
        self._ended = Ended(np.full(n, np.nan), np.zeros(n), self._asked, *took_s)
        table.router_score[:] = -1.0
        table.router_score[:, chain.models[0]] = 1.0

    @property
    def ahead_s(self) -> float:
        """Time between the end of an answer and whatever follows from it, at the least."""
        return self._network_s + self._reading.encode_s_per_request

    @property
    def unscored(self) -> bool:
        """Whether an answer is under way that something may follow from."""
        return bool(self._in_flight)

    @property
    def next_s(self) -> float:
        """When the next request goes on to another model; infinite while none is known to."""
        return self._going_on[0][0] if self._going_on else np.inf

    def go_on(self) -> int:
        """The request that goes on next."""
        at_s, request = self._going_on.popleft()
        self.came_s[request] = at_s
        return request

    def came(self, request: int, at_s: float) -> None:
        """A request comes to be decided for the first time."""
        self.came_s[request] = at_s

    def decided(self, decision: Decision) -> None:
        """Note what the decision took; whoever found no place is shown the answer there is."""
        rows, batch = decision.requests, decision.batch
        self._ended.batch_wait_s[rows] += batch.closed_s - self.came_s[rows]
        self._ended.encode_s[rows] += batch.ready_s - batch.closed_s
        self._ended.score_s[rows] += decision.decided_s - batch.ready_s
        unplaced = rows[decision.assignment.instance < 0]
        with_answer = unplaced[self._asked[unplaced] > 0]
        self._ended.shown_s[with_answer] = decision.decided_s

    def dispatched(
        self, requests: Ints, slots: Ints, instances: Ints, output: Ints, cut: NDArray[np.bool_]
    ) -> None:
        """Requests were sent: each ``cut`` answer is ended by its cap before the model has said all."""
        self._ended.thrown_away_usd[requests] += self._paid_usd[requests]
        self._asked[requests] += 1
        cost = self._table.input_tokens[requests] * self._shape.price_in_usd[instances]
        self._paid_usd[requests] = cost + output * self._shape.price_out_usd[instances]
        self._table.budget_usd[requests] -= self._paid_usd[requests]
        last = self._chain.models[-1]
        for request, slot, instance, short in zip(
            requests.tolist(), slots.tolist(), instances.tolist(), cut.tolist(), strict=True
        ):
            if self._shape.model[instance] != last:
                self._in_flight[request] = slot
                (self._cut.add if short else self._cut.discard)(request)

    def hear(self, engine: EngineSim, output: Ints) -> None:
        """Score the answers that have ended by the engine's clock; ``output`` (N,) are their lengths."""
        requests = np.fromiter(self._in_flight, dtype=np.int64, count=len(self._in_flight))
        done_s = engine.done_s[np.fromiter(self._in_flight.values(), dtype=np.int64, count=len(requests))]
        ended = np.flatnonzero(~np.isnan(done_s))
        for at in ended[np.lexsort((requests[ended], done_s[ended]))].tolist():
            request = int(requests[at])
            del self._in_flight[request]
            self._score(request, float(done_s[at]) + self._network_s, int(output[request]))

    def _score(self, request: int, back_s: float, tokens: int) -> None:
        read = min(tokens, self._reading.max_tokens)
        takes_s = self._reading.encode_s_per_request + self._reading.encode_s_per_token * read
        self._scorer_free_s = max(back_s, self._scorer_free_s) + takes_s
        model = int(self._table.router_score[request].argmax())
        # A cut answer says less than the one that was scored: it never ends the chain while it may go on.
        good = -np.inf if request in self._cut else float(self._answer_score[request, model])
        following = self._chain.after(model, good)
        if following is None or not self._affords(request, following):
            self._ended.shown_s[request] = self._scorer_free_s
            return
        self._table.router_score[request] = -1.0
        self._table.router_score[request, following] = 1.0
        self._going_on.append((self._scorer_free_s, request))

    def _affords(self, request: int, model: int) -> bool:
        """Whether the budget that is left pays the prompt and one token at the model's cheapest instance."""
        offers = self._shape.model == model
        price_in, price_out = self._shape.price_in_usd[offers], self._shape.price_out_usd[offers]
        least_usd = self._table.input_tokens[request] * price_in + price_out
        return bool(least_usd.min() <= self._table.budget_usd[request])

    def ended(self) -> Ended:
        """What became of all requests, once nothing is under way."""
        return self._ended


def check_telemetry(telemetry: Telemetry, label: str) -> None:
    """Raises ``ConfigError`` where a decision would look back to a moment that nobody has noted."""
    if telemetry.delay_s > 0.0 and telemetry.period_s == 0.0:
        raise ConfigError(
            f"policy {label}: a cascade can't be simulated with scheduler.telemetry.delay_s above 0 and "
            "period_s 0; give a period_s, as real scrapes have one"
        )
