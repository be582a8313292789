"""One cell in virtual time: the scheduler runtime of a deployment in front of the engine model."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rbx.config.policy import BearPolicy, RoutedPolicy, SinglePolicy
from rbx.config.pool import Tier
from rbx.engine.instance_snapshot import InstanceSnapshot
from rbx.engine.simulator import EngineSim
from rbx.engine.snapshot_export import export_snapshot
from rbx.engine.telemetry import PoolTelemetry
from rbx.heads.bea.lengths import whole_tokens
from rbx.policy.base import Policy
from rbx.policy.build import build_policy
from rbx.policy.filters.filtered import FilteredAssignment
from rbx.policy.request_table import NO_ROUTER, RequestTable
from rbx.policy.view import Served
from rbx.scheduler.decision_cost import DecisionTimes
from rbx.scheduler.runtime import Decision, SchedulerRuntime
from rbx.scheduler.scoring_stage import ScoredArrivals, score_arrivals
from rbx.sweep.cascade_run import CascadeRun, check_telemetry
from rbx.sweep.context import SweepContext
from rbx.sweep.workload import POLICY_STREAM, Arriving, stream

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Outcome:
    """What happened to N requests, in the order of the workload; see ``records`` for the meanings.

    Requests that no instance could hold have instance −1 and NaN times.
    """

    instance: Ints
    decided_s: Floats
    dispatched_s: Floats
    first_token_s: Floats
    done_s: Floats
    output_tokens: Ints
    wanted_tokens: Ints  # what the model would have said without a cap
    max_tokens: Ints
    predicted_quality: Floats
    predicted_length_tokens: Floats
    predicted_latency_s: Floats
    predicted_ttft_s: Floats  # from arrival
    on_time: Ints  # candidates predicted to meet the target; −1: nobody asked
    mode: Ints  # of ``rbx.policy.base.MODES``
    admitted: Ints | None  # candidates that a filter left; None where there is no filter
    admission: Ints | None  # of ``ADMISSIONS``
    scoring_wait_s: Floats | None  # for a scoring call; None where prompts are read with their batch
    batch_wait_s: Floats
    encode_s: Floats  # of the batch, or of the scoring call before it
    score_s: Floats
    thrown_away_usd: Floats | None  # of answers that a cascade did not show
    models_asked: Ints | None  # by a cascade; None where each request has one answer
    batch_id: Ints
    batch_size: Ints
    telemetry_age_s: Floats
    preemptions: Ints
    busy_s: Floats  # (instances,)
    steps: int
    batches: int
    infeasible: int  # decisions without a candidate that would meet the target
    alarms: int  # times that their share jumped


def request_table(context: SweepContext, arriving: Arriving, policy: SinglePolicy) -> RequestTable:
    """What the policy may see of a workload."""
    prompts, rows = context.prompts, arriving.prompt
    budget_usd, router_score = arriving.budget_usd, NO_ROUTER
    if isinstance(policy, RoutedPolicy) and policy.goes_by_score:
        router_score = np.ascontiguousarray(prompts.router_score[policy.router_label][rows])
        if context.chain_of(policy) is not None:
            # Scores of answers that nobody has given yet: a cascade writes whom it asks in their place, and
            # what is left of each budget.
            budget_usd, router_score = budget_usd.copy(), np.zeros_like(router_score)
    return RequestTable(
        input_tokens=prompts.input_tokens[rows],
        max_tokens=np.full(len(rows), context.experiment.workload.max_output_tokens, dtype=np.int64),
        budget_usd=budget_usd,
        quality=np.ascontiguousarray(prompts.quality[rows]),
        length_tokens=np.ascontiguousarray(prompts.length_tokens[rows]),
        ttft_target_s=arriving.ttft_target_s,
        router_score=router_score,
    ).checked()


class _Seen(NamedTuple):
    telemetry: PoolTelemetry
    snapshots: tuple[InstanceSnapshot, ...]


class SimulatedCell:
    """Drives one runtime and one engine through one workload."""

    def __init__(
        self,
        context: SweepContext,
        policy: SinglePolicy,
        arriving: Arriving,
        seed: int,
        servers: Sequence[Tier] | None = None,
        decider: Policy | None = None,
    ) -> None:
        """Build fresh scheduler and engine state; nothing is shared between cells.

        ``servers``, one for each instance, are what really serves where that is not what the policies
        believe: they know the pool of ``context``. ``decider`` decides in the place of ``policy``'s own.
        """
        n = len(arriving.prompt)
        self._context = context
        self._arriving = arriving
        self._scheduler = context.experiment.scheduler
        shape = context.shape
        rng = stream(seed, POLICY_STREAM)
        chain = context.chain_of(policy)
        slo = context.experiment.workload.slo
        decider = decider or build_policy(
            policy, context.pool.models, context.tpot, context.latency, rng, slo
        )
        self._table = request_table(context, arriving, policy)
        times = context.times_of(policy)
        self._scored = _scored_ahead(policy, times, arriving, self._table)
        self._runtime = SchedulerRuntime(
            self._scheduler,
            decider,
            shape,
            self._table,
            times if self._scored is None else times.scored_before,
            batched=policy.batched,
        )
        attempts = 1 if chain is None else len(chain.models)
        tiers = servers or [instance.tier for instance in context.pool.instances]
        self._engine = EngineSim(tiers, n * attempts)
        self._cascade: CascadeRun | None = None
        if chain is not None and isinstance(policy, RoutedPolicy):
            check_telemetry(self._scheduler.telemetry, policy.label)
            answer_score = context.prompts.router_score[policy.router_label][arriving.prompt]
            self._cascade = CascadeRun(chain, answer_score, self._table, shape, self._scheduler.network_s)
        self._scrapes: deque[_Seen] = deque()
        self._model = shape.model
        self._lost = context.experiment.tier_loss
        lost = None if self._lost is None else self._lost.tier
        self._lost_instances = np.array([i.tier.name == lost for i in context.pool.instances])
        self._truth = context.prompts.output_tokens[arriving.prompt]
        self._telemetry: PoolTelemetry | None = None
        self._snapshots: tuple[InstanceSnapshot, ...] = ()
        self._true_lengths = isinstance(policy, BearPolicy) and policy.true_lengths
        self._unanswered = np.zeros(0, dtype=np.int64)
        self._decisions: list[Decision] = []
        self._slot = np.full(n, -1, dtype=np.int64)
        self._instance, self._output = self._slot.copy(), self._slot.copy()

    def run(self) -> Outcome:
        """Play the whole workload and wait for the last answer."""
        arrivals = self._arriving.scheduled_s.tolist()
        runtime, n = self._runtime, len(arrivals)
        order, comes_s = list(range(n)), arrivals
        if self._scored is not None:
            order = self._scored.order.tolist()
            comes_s = self._scored.back_s[self._scored.order].tolist()
        position = 0
        while True:
            closes_s = runtime.closes_s()
            arrives_s = comes_s[position] if position < n else np.inf
            if self._cascade is not None:
                again_s = self._again_s(self._cascade, min(arrives_s, closes_s))
                if again_s < np.inf and again_s <= min(arrives_s, closes_s):
                    if runtime.needs.served:
                        runtime.learn(self._served(again_s))
                    request = self._cascade.go_on()
                    runtime.resubmit(request, again_s, arrivals[request])
                    continue
            if position < n and arrives_s <= closes_s:
                request = order[position]
                if self._cascade is not None:
                    self._cascade.came(request, arrives_s)
                runtime.submit(request, arrives_s, arrivals[request])
                position += 1
                continue
            if closes_s == np.inf:
                break
            batch = runtime.close(closes_s)
            if self._lost is not None and batch.ready_s >= self._lost.at_s:
                runtime.shut(self._lost_instances)
                self._lost = None
            telemetry = self._observe(batch.ready_s)
            if runtime.needs.served:
                runtime.learn(self._served(batch.ready_s))
            decision = runtime.decide(batch, telemetry, batch.ready_s, self._snapshots)
            self._decisions.append(decision)
            if self._cascade is not None:
                self._cascade.decided(decision)
            self._dispatch(decision)
        self._engine.drain()
        return self._outcome()

    def _again_s(self, cascade: CascadeRun, limit_s: float) -> float:
        """When a request next goes on to another model, as far as that is before ``limit_s``.

        The engine runs no further than to where a request may go on, or to the limit.
        """
        engine = self._engine
        cascade.hear(engine, self._output)
        while cascade.unscored and cascade.next_s == np.inf and engine.clock_s < limit_s:
            until_s = max(engine.next_boundary_s, engine.clock_s + cascade.ahead_s)
            self._bring(min(until_s, limit_s))
            cascade.hear(engine, self._output)
        return cascade.next_s

    def _bring(self, until_s: float) -> None:
        """Advance the engine and note what each scrape on the way shows: a decision may ask for it later."""
        period_s = self._scheduler.telemetry.period_s
        if period_s > 0.0:
            number = np.floor(self._engine.clock_s / period_s)
            while number * period_s <= until_s:
                self._engine.advance(max(number * period_s, self._engine.clock_s))
                self._scrapes.append(self._seen())
                number += 1
        self._engine.advance(until_s)

    def _scraped(self, stamp_s: float) -> PoolTelemetry:
        """The scrape of ``stamp_s``."""
        self._bring(max(stamp_s, self._engine.clock_s))
        while len(self._scrapes) > 1 and self._scrapes[1].telemetry.stamp_s[0] <= stamp_s:
            self._scrapes.popleft()
        self._telemetry, self._snapshots = self._scrapes[0]
        return self._telemetry

    def _observe(self, now_s: float) -> PoolTelemetry:
        """The newest telemetry that has come in: as of now, or of the last tick of the scrape period."""
        telemetry = self._scheduler.telemetry
        stamp_s = max(now_s - telemetry.delay_s, 0.0)
        if telemetry.period_s > 0.0:
            stamp_s = np.floor(stamp_s / telemetry.period_s) * telemetry.period_s
        if self._cascade is not None and telemetry.period_s > 0.0:
            return self._scraped(stamp_s)
        if self._telemetry is None or stamp_s > self._telemetry.stamp_s[0]:
            self._engine.advance(stamp_s)
            self._telemetry, self._snapshots = self._seen()
        return self._telemetry

    def _seen(self) -> _Seen:
        return _Seen(
            self._engine.telemetry(), self._take_snapshots() if self._runtime.needs.snapshots else ()
        )

    def _take_snapshots(self) -> tuple[InstanceSnapshot, ...]:
        return tuple(
            export_snapshot(self._engine, i, profile, true_lengths=self._true_lengths)
            for i, profile in enumerate(self._context.latency.profiles)
        )

    def _served(self, now_s: float) -> Served:
        """Answers that have ended since the last call, as far as the engine has come (delays included)."""
        network_s, engine = self._scheduler.network_s, self._engine
        back_s = engine.done_s[self._slot[self._unanswered]] + network_s
        ended = back_s <= now_s  # never of NaN
        requests = self._unanswered[ended][np.argsort(back_s[ended], kind="stable")]
        self._unanswered = self._unanswered[~ended]
        slot = self._slot[requests]
        return Served(
            request=requests,
            instance=self._instance[requests],
            input_tokens=self._table.input_tokens[requests],
            output_tokens=self._output[requests],
            arrived_s=(self._arriving.scheduled_s if self._cascade is None else self._cascade.came_s)[
                requests
            ],
            first_token_s=engine.first_token_s[slot] + network_s,
            done_s=engine.done_s[slot] + network_s,
        )

    def _dispatch(self, decision: Decision) -> None:
        assignment = decision.assignment
        placed = np.flatnonzero(assignment.instance >= 0)
        requests = decision.requests[placed]
        instance = assignment.instance[placed]
        wanted = self._truth[requests, self._model[instance]]
        output = np.minimum(wanted, assignment.max_tokens[placed])
        self._instance[requests], self._output[requests] = instance, output
        if self._runtime.needs.served:
            self._unanswered = np.concatenate([self._unanswered, requests])
        slots = self._engine.submit_many(
            instance,
            np.full(len(placed), decision.decided_s + self._scheduler.network_s),
            self._table.input_tokens[requests],
            output,
            whole_tokens(assignment.length_tokens[placed]),
            # An answer as long as its cap is ended by the cap, which the engine knows a step ahead.
            wanted >= assignment.max_tokens[placed],
            assignment.max_tokens[placed],
        )
        self._slot[requests] = slots
        if self._cascade is not None:
            self._cascade.dispatched(requests, slots, instance, output, output < wanted)

    def _waits(self, closed_s: Floats, ready_s: Floats) -> tuple[Floats | None, Floats, Floats]:
        """Waits for scoring and for the batch, and reading the prompt: parts (N,) that add up."""
        arrived_s, scored = self._arriving.scheduled_s, self._scored
        if self._cascade is not None:
            cascade = self._cascade.ended()
            return None, cascade.batch_wait_s, cascade.encode_s
        if scored is None:
            return None, closed_s - arrived_s, ready_s - closed_s
        return scored.began_s - arrived_s, closed_s - scored.back_s, scored.back_s - scored.began_s

    def _outcome(self) -> Outcome:
        n = len(self._arriving.prompt)
        # In decision order, then back to the order of the workload: of several the last that found a place.
        requests = np.concatenate([decision.requests for decision in self._decisions])
        found = np.concatenate([decision.assignment.instance for decision in self._decisions]) >= 0
        back = np.zeros(n, dtype=np.int64)
        for rows in (np.flatnonzero(~found), np.flatnonzero(found)):
            back[requests[rows]] = rows
        sizes = np.array([len(decision.requests) for decision in self._decisions])

        def column(name: str) -> NDArray[np.generic]:
            values = [getattr(decision.assignment, name) for decision in self._decisions]
            return np.asarray(np.concatenate(values)[back])

        def per_batch(values: list[float]) -> Floats:
            return np.repeat(np.array(values), sizes)[back]

        filtered = isinstance(self._decisions[0].assignment, FilteredAssignment)
        batches = [decision.batch for decision in self._decisions]
        closed_s = per_batch([batch.closed_s for batch in batches])
        ready_s = per_batch([batch.ready_s for batch in batches])
        scoring_wait_s, batch_wait_s, encode_s = self._waits(closed_s, ready_s)
        decided_s = per_batch([decision.decided_s for decision in self._decisions])
        instance = column("instance").astype(np.int64)
        placed = instance >= 0
        ages = np.concatenate(
            [decision.telemetry_age_s[decision.assignment.instance] for decision in self._decisions]
        )[back]
        max_tokens = column("max_tokens").astype(np.int64)
        wanted = np.where(placed, self._truth[np.arange(n), self._model[instance]], 0)
        engine, slot = self._engine, self._slot
        cascade = None if self._cascade is None else self._cascade.ended()
        shown_s = np.full(n, np.nan) if cascade is None else cascade.shown_s
        first_token_s = _where_placed(engine.first_token_s, slot) + self._scheduler.network_s
        done_s = _where_placed(engine.done_s, slot) + self._scheduler.network_s
        return Outcome(
            instance=instance,
            decided_s=decided_s,
            dispatched_s=np.where(placed, decided_s, np.nan),
            first_token_s=np.where(np.isnan(shown_s), first_token_s, shown_s),
            done_s=np.where(np.isnan(shown_s), done_s, shown_s),
            output_tokens=np.minimum(wanted, max_tokens),
            wanted_tokens=wanted,
            max_tokens=max_tokens,
            predicted_quality=column("quality").astype(np.float64),
            predicted_length_tokens=column("length_tokens").astype(np.float64),
            predicted_latency_s=column("latency_s").astype(np.float64),
            predicted_ttft_s=column("ttft_s").astype(np.float64),
            on_time=column("on_time").astype(np.int64),
            mode=column("mode").astype(np.int64),
            admitted=column("admitted").astype(np.int64) if filtered else None,
            admission=column("admission").astype(np.int64) if filtered else None,
            scoring_wait_s=scoring_wait_s,
            batch_wait_s=batch_wait_s,
            encode_s=encode_s,
            score_s=decided_s - ready_s if cascade is None else cascade.score_s,
            thrown_away_usd=None if cascade is None else cascade.thrown_away_usd,
            models_asked=None if cascade is None else cascade.models_asked,
            batch_id=per_batch([batch.batch_id for batch in batches]).astype(np.int64),
            batch_size=np.repeat(sizes, sizes)[back],
            telemetry_age_s=ages,
            preemptions=np.nan_to_num(_where_placed(engine.preemptions, slot)).astype(np.int64),
            busy_s=np.asarray(engine.busy_s, dtype=np.float64),
            steps=int(np.sum(engine.steps)),
            batches=len(batches),
            infeasible=self._runtime.alarm.infeasible,
            alarms=self._runtime.alarm.rang,
        )


def _scored_ahead(
    policy: SinglePolicy, times: DecisionTimes, arriving: Arriving, table: RequestTable
) -> ScoredArrivals | None:
    """When each prompt is scored where that does not wait for its batch."""
    queue = policy.deployment.queue if isinstance(policy, RoutedPolicy) else None
    if queue is None:
        return None
    return score_arrivals(arriving.scheduled_s, table.input_tokens, queue, times.scoring)


def _where_placed(values: NDArray[np.generic], slot: Ints) -> Floats:
    """A result of the engine by request; NaN for those that no instance has got."""
    found = np.full(len(slot), np.nan)
    placed = slot >= 0
    found[placed] = values[slot[placed]]
    return found
