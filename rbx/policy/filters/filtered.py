"""A policy behind a filter: it chooses among those that the filter leaves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rbx.config.filter import FilterRule
from rbx.policy.ask import Ask, asks
from rbx.policy.base import NO_INSTANCE, SHED, Assignment, Ints, Needs, Policy
from rbx.policy.candidates import cap_output, cheapest, possible
from rbx.policy.filters.admissions import ADMISSIONS, STRICT
from rbx.policy.filters.open_models import AmongOpenModels
from rbx.policy.filters.outlook import Candidates, LatencyForecast, Outlook, Targets
from rbx.policy.filters.rule import Rule
from rbx.policy.in_turn import decide_in_turn
from rbx.policy.placing import Placing
from rbx.policy.pool_state import PoolShape, PoolState
from rbx.policy.request_table import RequestTable
from rbx.policy.routed import Routed
from rbx.policy.scored import ScoredDispatch
from rbx.policy.view import PoolView, Served

_SHED = ADMISSIONS.index("shed")


@dataclass(frozen=True)
class FilteredAssignment(Assignment):
    """An assignment behind a filter, (B,).

    ``admitted`` counts the candidates that the filter left, ``admission`` says how, as an index of
    ``ADMISSIONS``.
    """

    admitted: Ints
    admission: Ints


class Filtered:
    """Requests in turn: who is left is what ``policy`` finds alive, and it decides for that request alone.

    Each request sees the load as the requests before it have left it. Where nobody passes, ``on_empty`` of
    the configuration says what becomes of it. A request that nobody can hold is not the filter's affair.
    """

    def __init__(
        self,
        config: FilterRule,
        rule: Rule,
        policy: Policy,
        shape: PoolShape,
        promised: Targets,
        forecast: LatencyForecast | None,
    ) -> None:
        """``promised`` are the targets of requests; that of TTFT, if infinite, is each request's own.

        ``forecast`` belongs to rules that read latency.
        """
        needs, own = policy.needs, Needs() if forecast is None else forecast.ttft.needs
        self.needs = Needs(
            predictions=needs.predictions or config.reads_lengths,
            snapshots=needs.snapshots or own.snapshots,
            served=needs.served or own.served,
        )
        self.policy = policy
        self._config = config
        self._rule = rule
        self._shape = shape
        self._promised = promised
        self._forecast = forecast
        self._no_latency = np.zeros(shape.n_instances)
        self._no_budget = np.zeros(0)
        self._router: AmongOpenModels | None = None
        if isinstance(policy, (Routed, ScoredDispatch)):
            self._router = AmongOpenModels(policy.router, int(shape.model.max()) + 1)
            policy.router = self._router

    def assign(
        self, requests: Ints, table: RequestTable, view: PoolView, state: PoolState
    ) -> FilteredAssignment:
        """See ``Policy.assign``; who is alive is as before when it returns."""
        if self._forecast is not None:
            self._forecast.look(view, state)
        asked = list(asks(requests, table, view, self._shape))
        shown = self._shown(table)
        policy = self.policy
        # Whoever named a model has no router; see RestrictedPolicy.
        if isinstance(policy, (Routed, ScoredDispatch)) and policy.router is self._router:
            self._router.look(requests, shown)

        def one(positions: Sequence[int], seen: PoolView) -> FilteredAssignment:
            (k,) = positions
            return self._one(asked[k], requests[k : k + 1], shown, seen, state)

        turns = ((k,) for k in range(len(requests)))
        return decide_in_turn(turns, one, requests, table, view)

    def learn(self, served: Served) -> None:
        """Hand it to the policy and to the estimator, as far as they ask."""
        if self.policy.needs.served:
            self.policy.learn(served)
        if self._forecast is not None and self._forecast.ttft.needs.served:
            self._forecast.ttft.learn(served)

    def _one(
        self, ask: Ask, request: Ints, table: RequestTable, view: PoolView, state: PoolState
    ) -> FilteredAssignment:
        """Place one request among those who are left."""
        candidates = possible(ask.input_tokens, self._shape, state)
        left, how = self._left(ask, candidates, state)
        if how == _SHED:
            answer = Placing.of(1, self._shape, state, 0).answer
            answer.mode[0] = SHED
        else:
            answer = self._among(left, request, table, view, state)
        best = int(answer.instance[0])
        if best != NO_INSTANCE:
            if self._config.kind == "none":
                cap = cap_output(best, ask.input_tokens, ask.max_tokens, ask.budget_usd, self._shape)
                answer.max_tokens[0] = min(cap, answer.max_tokens[0])
            if self._forecast is not None:
                self._forecast.book(ask, best, int(answer.max_tokens[0]))
        n_left = np.array([np.count_nonzero(left)])
        return FilteredAssignment(**vars(answer), admitted=n_left, admission=np.array([how]))

    def _left(self, ask: Ask, candidates: Candidates, state: PoolState) -> tuple[Candidates, int]:
        """Who may serve ``ask``, and how that was found, as an index of ``ADMISSIONS``."""
        if not candidates.any():
            return candidates, STRICT
        outlook = self._outlook(ask, candidates, state)
        passing = self._rule.passing(outlook)
        if passing.candidates.any():
            return passing.candidates, passing.relaxed
        how = ADMISSIONS.index(self._config.on_empty)
        if self._config.on_empty == "cheapest":
            return cheapest(candidates, ask.cost_usd), how
        if self._config.on_empty == "shed":
            return np.zeros_like(candidates), how
        affordable = outlook.affordable
        keeps_budget = self._config.reads_budget and affordable.any()
        return affordable if keeps_budget else candidates, how

    def _outlook(self, ask: Ask, candidates: Candidates, state: PoolState) -> Outlook:
        ttft_s, tpot_s = self._no_latency, self._no_latency
        if self._forecast is not None:
            ttft_s, tpot_s = self._forecast.ttft_s(ask, candidates, state), self._forecast.tpot_s
        targets = self._promised
        if targets.ttft_s == np.inf:
            targets = targets._replace(ttft_s=ask.ttft_target_s)
        return Outlook(candidates, ttft_s, tpot_s, ask.length_tokens, ask.cost_usd, ask.budget_usd, targets)

    def _among(
        self, left: Candidates, request: Ints, table: RequestTable, view: PoolView, state: PoolState
    ) -> Assignment:
        """What the policy decides where ``left`` alone are alive."""
        if self._router is not None:
            self._router.open[:] = False
            self._router.open[self._shape.model[left]] = True
        alive = state.alive.copy()
        state.alive[:] = left
        try:
            return self.policy.assign(request, table, view, state)
        finally:
            state.alive[:] = alive

    def _shown(self, table: RequestTable) -> RequestTable:
        """What the policy sees: ``none`` hides budgets from the rules that policies have of their own."""
        if self._config.kind != "none":
            return table
        if len(self._no_budget) != len(table.budget_usd):
            self._no_budget = np.full(len(table.budget_usd), np.inf)
        return table._replace(budget_usd=self._no_budget)
