"""Placing a request until an instance has begun to answer it."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rbx.config.pool import Pool
from rbx.policy.candidates import cap_output
from rbx.policy.pool_state import PoolShape
from rbx.serve.exchange import Exchange, UpstreamFault, UpstreamInstance
from rbx.serve.gateway.account import Account
from rbx.serve.gateway.admitted import Admitted
from rbx.serve.gateway.attempt import Attempt, Load
from rbx.serve.gateway.decider import Placement
from rbx.serve.gateway.errors import ApiError, of_fault, overloaded, unavailable
from rbx.serve.gateway.metrics import Metrics
from rbx.serve.gateway.request import CAPS, Asked
from rbx.serve.gateway.watching import Watching
from rbx.serve.upstream.breaker import Breakers

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Begun:
    """An answer that has begun. ``attempts`` counts the instances that were tried, ``decision_s`` is from
    arrival to the first decision."""

    exchange: Exchange
    attempt: Attempt
    placement: Placement
    account: Account
    attempts: int
    decision_s: float


class Placer:
    """Places requests on the instances of a pool, and anew where an instance fails before its first byte."""

    def __init__(
        self,
        pool: Pool,
        upstreams: Sequence[UpstreamInstance],
        watch: Watching,
        breakers: Breakers,
        metrics: Metrics,
        clock: Callable[[], float],
    ) -> None:
        """``upstreams`` are in the order of the pool's instances."""
        self.load = Load()
        self._names = tuple(instance.name for instance in pool.instances)
        self._models = tuple(instance.tier.model for instance in pool.instances)
        self._shape = PoolShape.of(pool)
        self._upstreams = tuple(upstreams)
        self._watch = watch
        self._breakers = breakers
        self._metrics = metrics
        self._clock = clock
        self.undecided = 0
        self._awaiting: dict[int, set[asyncio.Task[Any]]] = {i: set() for i in range(len(self._names))}
        self._recalled: set[asyncio.Task[Any]] = set()

    def recall(self, instance: int) -> None:
        """Take back from ``instance`` what it has not begun to answer: it gives no token to anybody.

        Each request is placed anew while it may be tried again, else its client hears of it.
        """
        for task in self._awaiting[instance]:
            self._recalled.add(task)
            task.cancel()

    async def begin(self, request: Admitted) -> Begun:
        """Returns with the first piece at hand; raises ``ApiError`` where nobody serves the request.

        An instance that failed it is out of the question for its further attempts, and so is one whose
        breaker opened between decision and dispatch. Cancelling it ends the attempt under way.
        """
        retries = request.version.config.retries
        allowed = request.version.decider.live.allowed
        attempts, decision_s = 0, 0.0
        fault: UpstreamFault | None = None
        for round_ in range(1, retries.attempts + len(self._names) + 1):
            placement = await self._decide(request, round_)
            decision_s = decision_s or placement.decided_s - request.arrived_s
            instance = placement.instance
            if instance < 0:
                raise self._nowhere(request, placement, fault)
            now_s = self._clock()
            if not self._breakers.allows(instance, now_s):
                self._watch.ended(instance, placement.name, now_s)
                allowed[request.row, instance] = False
                continue
            attempts += 1
            begun = await self._try(request, placement)
            if not isinstance(begun, UpstreamFault):
                return Begun(*begun, placement, self._account(request, placement), attempts, decision_s)
            fault = begun
            late = self._clock() - request.arrived_s > retries.within_s
            if not fault.retryable or late or attempts >= retries.attempts:
                raise of_fault(fault, self._names[instance])
            allowed[request.row, instance] = False
            self._metrics.replaced.inc()
        raise unavailable("no instance took the request", request.version.config.admission.retry_after_s)

    async def _decide(self, request: Admitted, round_: int) -> Placement:
        version = request.version
        self.undecided += 1
        try:
            now_s = request.arrived_s if round_ == 1 else self._clock()
            name, streams = f"{request.id}-{round_}", request.asked.stream
            placement = await version.decider.place(request.row, name, now_s, streams=streams)
        finally:
            self.undecided -= 1
        self._metrics.decisions.labels(version.policy.label, placement.mode).inc()
        self._metrics.batch_size.observe(placement.batch_size)
        if round_ == 1:
            self._metrics.decision_seconds.observe(placement.decided_s - request.arrived_s)
        return placement

    async def _try(self, request: Admitted, placement: Placement) -> tuple[Exchange, Attempt] | UpstreamFault:
        """One attempt: the answer that began, or what went wrong."""
        i, asked = placement.instance, request.asked
        attempt = Attempt(
            i, placement.name, self._clock(), self._watch, self._breakers, self.load, stream=asked.stream
        )
        self._metrics.placed.labels(self._names[i]).inc()
        budgeted = bool(np.isfinite(asked.knobs.budget_usd))
        body = upstream_body(asked, self._models[i], placement.max_tokens, budgeted=budgeted)
        begun = False
        task = asyncio.current_task()
        assert task is not None
        self._awaiting[i].add(task)
        try:
            exchange = await self._upstreams[i].send(
                f"/{asked.path}", body, request.version.config.deadlines, placement.name
            )
            begun = True
        except UpstreamFault as fault:
            self.note(fault, i)
            attempt.failed(fault, self._clock())
            return fault
        except asyncio.CancelledError:
            if task not in self._recalled or _still_cancelled(task):
                raise
            late = UpstreamFault("stalled", "taken back: it gives no token to anybody", True, counts=False)
            self.note(late, i)
            return late
        finally:
            self._awaiting[i].discard(task)
            self._recalled.discard(task)
            if not begun:
                attempt.abandoned(self._clock())  # cancelled: the client has left
        return exchange, attempt

    def note(self, fault: UpstreamFault, instance: int) -> None:
        """Count a fault; its details are for the log alone."""
        _log.info("%s: %s", self._names[instance], fault)
        self._metrics.faults.labels(self._names[instance], fault.kind).inc()

    def _account(self, request: Admitted, placement: Placement) -> Account:
        i, asked = placement.instance, request.asked
        free_cap = cap_output(i, asked.input_tokens, request.max_tokens, np.inf, self._shape)
        return Account(
            price_in_usd=float(self._shape.price_in_usd[i]),
            price_out_usd=float(self._shape.price_out_usd[i]),
            budget_usd=asked.knobs.budget_usd,
            input_tokens=asked.input_tokens,
            cap_tokens=placement.max_tokens,
            free_cap_tokens=free_cap,
            context_tokens=int(self._shape.max_model_len[i]),
        )

    def _nowhere(self, request: Admitted, placement: Placement, fault: UpstreamFault | None) -> ApiError:
        wait_s = request.version.config.admission.retry_after_s
        if placement.mode == "shed":
            self._metrics.shed.labels("policy").inc()
            return overloaded("no instance would answer within the request's target", wait_s)
        if fault is not None:
            return of_fault(fault, "every instance was tried; the last one")
        self._metrics.shed.labels("no_instance").inc()
        retry_s = self._breakers.retry_at_s(range(len(self._names))) - self._clock()
        return unavailable("no instance that could serve this request is up", max(wait_s, retry_s))


def _still_cancelled(task: asyncio.Task[Any]) -> bool:
    """Whether somebody else has cancelled it too; one cancellation is taken off."""
    return sys.version_info >= (3, 11) and task.uncancel() > 0


def upstream_body(asked: Asked, model: str, cap: int, *, budgeted: bool) -> Mapping[str, Any]:
    """The client's body with the placement in it: model, cap, and the usage that costs are counted by.

    With a budget the server is asked to count after every piece, so that the stream can be cut in time.
    """
    body = {**asked.body, "model": model}
    for name in [name for name in CAPS[asked.path] if body.get(name) is not None] or ["max_tokens"]:
        body[name] = cap
    least = body.get("min_tokens")
    if isinstance(least, int) and least > cap:
        body["min_tokens"] = cap
    if asked.stream:
        options = {**(body.get("stream_options") or {}), "include_usage": True}
        body["stream_options"] = {**options, "continuous_usage_stats": True} if budgeted else options
    return body
