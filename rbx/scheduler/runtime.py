"""The sans-I/O runtime around a policy: batch formation, ordering, dead reckoning, bookkeeping.

It takes the time as an argument and never reads a clock; a simulator and a gateway drive the same
object in the same three steps::

    runtime.submit(request, now)              a request arrives
    batch = runtime.close(runtime.closes_s()) a batch is due; its prompts are encoded until ready_s
    decision = runtime.decide(batch, telemetry, batch.ready_s)
    runtime.learn(served)                     answers have ended

The decision and the note of what it dispatched are one call: no other decision falls in between.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rbx.config.experiment import Batching, SchedulerConfig
from rbx.engine.instance_snapshot import InstanceSnapshot
from rbx.engine.telemetry import PoolTelemetry
from rbx.heads.bea.unseen import UnseenRequests
from rbx.policy.base import Assignment, Needs, Policy
from rbx.policy.bear.alarm import InfeasibleAlarm
from rbx.policy.pool_state import PoolShape, PoolState
from rbx.policy.request_table import RequestTable
from rbx.policy.view import PoolView, Served
from rbx.scheduler.batching import BatchFormer
from rbx.scheduler.decision_cost import DecisionTimes
from rbx.scheduler.ledger import Ledger

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class ClosedBatch:
    """Requests (B,) as they came to the queue, when each arrived, and when their encodings are ready."""

    batch_id: int
    requests: Ints
    arrived_s: Floats
    closed_s: float
    ready_s: float


@dataclass(frozen=True)
class Decision:
    """What was decided for one batch: requests in the order they were placed, and when."""

    batch: ClosedBatch
    requests: Ints
    assignment: Assignment
    decided_s: float
    telemetry_age_s: Floats


class SchedulerRuntime:
    """One decision loop over one pool."""

    def __init__(
        self,
        config: SchedulerConfig,
        policy: Policy,
        shape: PoolShape,
        table: RequestTable,
        times: DecisionTimes,
        *,
        batched: bool = True,
    ) -> None:
        """``batched=False`` decides on arrival, for policies that gain nothing from a batch.

        ``alarm`` follows the share of requests that nobody could serve in time, as far as policies tell.
        """
        self._policy = policy
        self._table = table
        self._times = times
        self._lpt = config.order == "lpt" and policy.needs.predictions
        self._network_s = config.network_s
        on_arrival = Batching(mode="fixed", max_size=1, window_s=0.0)
        self._former = BatchFormer(config.batching if batched else on_arrival)
        self._ledger = Ledger(shape) if config.ledger else None
        self._nothing = Ledger(shape).unseen()
        self._state = PoolState.idle(shape.n_instances)
        self._batches = 0
        self._read: set[int] = set()
        self.alarm = InfeasibleAlarm()

    @property
    def needs(self) -> Needs:
        """What the policy must be shown."""
        return self._policy.needs

    def submit(self, request: int, now_s: float, arrived_s: float | None = None) -> None:
        """Row ``request`` of the table comes to be decided, now that it arrives or was scored."""
        self._former.add(request, now_s, arrived_s)

    def resubmit(self, request: int, now_s: float, arrived_s: float) -> None:
        """Row ``request`` comes to be decided once more; its prompt was read the first time."""
        self._read.add(request)
        self._former.add(request, now_s, arrived_s)

    def withdraw(self, request: int) -> None:
        """Row ``request`` no longer waits: its client has left."""
        self._former.withdraw(request)

    def closes_s(self) -> float:
        """When the next batch closes if nobody else arrives; infinite while nobody waits."""
        return self._former.closes_s()

    def close(self, now_s: float) -> ClosedBatch:
        """Take the due batch; nothing else closes until its decision is out."""
        requests, arrived_s = self._former.take()
        encode_s = 0.0
        if self._policy.needs.predictions:
            unread = [request for request in requests.tolist() if request not in self._read]
            encode_s = self._times.encode_s(self._table.input_tokens[unread])
        self._former.hold_until(np.inf)
        batch = ClosedBatch(self._batches, requests, arrived_s, now_s, now_s + encode_s)
        self._batches += 1
        return batch

    def decide(
        self,
        batch: ClosedBatch,
        telemetry: PoolTelemetry,
        now_s: float,
        snapshots: tuple[InstanceSnapshot, ...] = (),
        unseen: tuple[UnseenRequests, ...] | None = None,
    ) -> Decision:
        """Assign a closed batch on the newest telemetry; longest predicted output first (LPT).

        ``snapshots`` are of the same moment as ``telemetry`` and asked for by ``needs`` alone. A driver
        that follows its requests by name hands in those that ``telemetry`` does not show as ``unseen``;
        without it the runtime counts its own dispatches against ``telemetry.received``.
        """
        self._state.show(telemetry)
        not_shown = self._book_unseen(telemetry, unseen)
        self._former.observe(float(np.mean(self._state.waiting > 0)))
        order = np.arange(len(batch.requests))
        if self._lpt and len(order) > 1:
            longest = self._table.length_tokens[batch.requests].max(axis=1)
            order = np.argsort(-longest, kind="stable")
        requests = batch.requests[order]
        decided_s = now_s + self._times.score_s(len(requests))
        enters_s = decided_s + self._network_s
        view = PoolView(
            now_s, enters_s, self._network_s, batch.arrived_s[order], telemetry, snapshots, not_shown
        )
        assignment = self._policy.assign(requests, self._table, view, self._state)
        if self._ledger is not None and unseen is None:
            self._ledger.add(assignment, self._table.input_tokens[requests], enters_s)
        for candidates in assignment.on_time[assignment.on_time >= 0].tolist():
            self.alarm.note(candidates == 0)
        self._former.hold_until(decided_s)
        return Decision(batch, requests, assignment, decided_s, now_s - telemetry.stamp_s)

    def _book_unseen(
        self, telemetry: PoolTelemetry, told: tuple[UnseenRequests, ...] | None
    ) -> tuple[UnseenRequests, ...]:
        """Book what was sent and ``telemetry`` does not show into the state; what snapshots lack of it."""
        if self._ledger is None:
            return self._nothing
        if told is not None:
            self._ledger.book_told(told, self._state)
            return told
        self._ledger.apply(telemetry, self._state)
        return self._ledger.unseen() if self.needs.snapshots else self._nothing

    def abandon(self) -> None:
        """A closed batch got no decision and will get none: the next one may close."""
        self._former.hold_until(0.0)

    def shut(self, instances: NDArray[np.bool_]) -> None:
        """Nothing is sent to ``instances`` (I,) any more."""
        self._state.alive[instances] = False

    def learn(self, served: Served) -> None:
        """Tell the policy how earlier requests fared, if it asks."""
        if self.needs.served:
            self._policy.learn(served)
