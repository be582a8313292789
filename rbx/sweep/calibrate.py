"""How far off latency predictions are: a bundle's own, on simulated traffic of prompts held out one by one.

Cells under the pool's reference policy (passthrough, shortest queue) at several loads. Each request is
predicted at the moment of its decision by every source, on the instance that it then goes to, and compared
with what it got. The prompts are those of the train split, each predicted with itself left out, so that
the workloads of experiments (the test split) stay unseen; the traffic has a seed of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import get_args

import numpy as np
from numpy.typing import NDArray

from rbx.config.experiment import Experiment, PoissonArrivals
from rbx.config.policy import RoutedPolicy
from rbx.config.pool import Pool
from rbx.config.ttft_source import TtftSource
from rbx.errors import BundleError
from rbx.grid.schema import GridView
from rbx.heads.bundle import Bundle
from rbx.heads.calibration import Calibration
from rbx.heads.length_rules import length_rules
from rbx.heads.progress import Progress, silent
from rbx.heads.residuals import Residuals
from rbx.policy.ask import Ask, asks
from rbx.policy.base import Assignment, Ints, Needs, Policy
from rbx.policy.build import build_policy
from rbx.policy.filters.outlook import LatencyForecast
from rbx.policy.in_turn import decide_in_turn
from rbx.policy.pool_state import PoolState
from rbx.policy.request_table import RequestTable
from rbx.policy.view import PoolView, Served
from rbx.sweep.capacity import measure_capacity
from rbx.sweep.context import SweepContext
from rbx.sweep.plan import with_encoder_cost
from rbx.sweep.prediction import predict_prompts
from rbx.sweep.prompts import build_prompt_table, usable_rows
from rbx.sweep.simulate import SimulatedCell
from rbx.sweep.workload import draw_workload

Floats = NDArray[np.float64]

LOADS = (0.3, 0.6, 0.9, 1.1)
REQUESTS_PER_INSTANCE, FEWEST_REQUESTS = 200, 2000  # a load
FEWEST_OF_A_TIER = 50
MOST_OF_A_TIER = 5000  # kept: order statistics, evenly spaced
SEED_OFFSET = 40_000  # away from the seeds of experiments
_REFERENCE = RoutedPolicy(router="passthrough", dispatch="shortest-queue")
_TTFT_SOURCES: tuple[TtftSource, ...] = get_args(TtftSource)


def calibrate(
    bundle: Bundle, view: GridView, pool: Pool, seed: int, progress: Progress = silent
) -> Calibration:
    """Measure the residuals of ``bundle`` on ``pool``; the same seed gives the same bytes.

    Raises ``BundleError`` where bundle, grid and pool do not belong together or a tier served too little.
    """
    bundle.check_grid(view)
    bundle.check_pool(pool)
    context = _context(bundle, view, pool)
    capacity_per_s = measure_capacity(context, seed=seed + SEED_OFFSET).rate_per_s
    n_requests = max(FEWEST_REQUESTS, REQUESTS_PER_INSTANCE * len(pool.instances))
    observed = []
    for done, load in enumerate(LOADS):
        progress("calibrate latency predictions", done, len(LOADS))
        observed.append(observe(context, load * capacity_per_s, n_requests, seed + SEED_OFFSET + done))
    progress("calibrate latency predictions", len(LOADS), len(LOADS))
    how = {
        "loads": list(LOADS),
        "capacity_per_s": capacity_per_s,
        "requests_a_load": n_requests,
        "seed": seed,
        "bundle": bundle.digest,
        "pool": pool.digest,
        "policy": _REFERENCE.label,
    }
    return Calibration(
        tiers=tuple(tier.name for tier in pool.tiers),
        ttft=_residuals(pool, [each.tier for each in observed], [each.ttft_s for each in observed]),
        tpot=_residuals(pool, [each.tier for each in observed], [each.tpot_s for each in observed]),
        how=how,
    )


@dataclass(frozen=True)
class Observed:
    """Actual − predicted of n requests by source, (n,) each; NaN where a request has no such time."""

    tier: Ints
    ttft_s: Mapping[str, Floats]
    tpot_s: Mapping[str, Floats]


def observe(context: SweepContext, rate_per_s: float, n_requests: int, seed: int) -> Observed:
    """One cell, with every prediction beside what came of it."""
    changes = {"n_requests": n_requests, "duration_s": None, "arrivals": PoissonArrivals(), "budget": None}
    workload = context.experiment.workload.model_copy(update=changes)
    arriving = draw_workload(workload, context.prompts.input_tokens, rate_per_s, seed)
    noting = Noting(context, _reference(context), n_requests)
    outcome = SimulatedCell(context, _REFERENCE, arriving, seed, decider=noting).run()
    served = np.flatnonzero(outcome.instance >= 0)
    first_s, done_s = outcome.first_token_s[served], outcome.done_s[served]
    ttft_s = first_s - arriving.scheduled_s[served]
    gaps = outcome.output_tokens[served] - 1
    tpot_s = (done_s - first_s) / np.where(gaps > 0, gaps, np.nan)
    return Observed(
        tier=context.shape.tier[outcome.instance[served]],
        ttft_s={source: ttft_s - noting.ttft_s[source][served] for source in _TTFT_SOURCES},
        tpot_s={source: tpot_s - noting.tpot_s[source][served] for source in noting.tpot_s},
    )


class Noting:
    """A policy that notes, before each request goes out, what every source says of where it goes.

    ``ttft_s`` and ``tpot_s`` (N,) by source, in the order of the workload; NaN for those not placed.
    """

    def __init__(self, context: SweepContext, policy: Policy, n_requests: int) -> None:
        """``policy`` decides; the notes change nothing of it."""
        latency, shape = context.latency, context.shape
        self.needs = Needs(policy.needs.predictions, snapshots=True, served=True)
        self.ttft_s = {source: np.full(n_requests, np.nan) for source in _TTFT_SOURCES}
        self.tpot_s = {source: np.full(n_requests, np.nan) for source in ("xgboost", "prior")}
        self._policy = policy
        self._shape = shape
        self._forecasts = {
            source: LatencyForecast(shape, latency.estimator(source), context.tpot)
            for source in _TTFT_SOURCES
        }

    def assign(self, requests: Ints, table: RequestTable, view: PoolView, state: PoolState) -> Assignment:
        """See ``Policy.assign``."""
        for forecast in self._forecasts.values():
            forecast.look(view, state)
        asked = list(asks(requests, table, view, self._shape))

        def one(positions: Sequence[int], seen: PoolView) -> Assignment:
            (k,) = positions
            before = PoolState._make(column.copy() for column in state)
            answer = self._policy.assign(requests[k : k + 1], table, seen, state)
            instance = int(answer.instance[0])
            if instance >= 0:
                self._note(asked[k], instance, int(answer.max_tokens[0]), before)
            return answer

        return decide_in_turn(((k,) for k in range(len(requests))), one, requests, table, view)

    def learn(self, served: Served) -> None:
        """Hand it to the policy and to the estimators, as far as they ask."""
        if self._policy.needs.served:
            self._policy.learn(served)
        for forecast in self._forecasts.values():
            if forecast.ttft.needs.served:
                forecast.ttft.learn(served)

    def _note(self, ask: Ask, instance: int, max_tokens: int, state: PoolState) -> None:
        chosen = np.arange(self._shape.n_instances) == instance
        for source, forecast in self._forecasts.items():
            self.ttft_s[source][ask.row] = forecast.ttft_s(ask, chosen, state)[instance]
            forecast.book(ask, instance, max_tokens)
            self.tpot_s["xgboost"][ask.row] = forecast.tpot_s[instance]
        self.tpot_s["prior"][ask.row] = self._shape.tpot_prior_s[instance]


def _reference(context: SweepContext) -> Policy:
    rng = np.random.default_rng(0)  # nothing of the reference is drawn
    return build_policy(_REFERENCE, context.pool.models, context.tpot, context.latency, rng)


def _residuals(
    pool: Pool, tiers: Sequence[Ints], by_source: Sequence[Mapping[str, Floats]]
) -> dict[str, Residuals]:
    """All loads together, tier by tier; raises ``BundleError`` for a tier that has too few."""
    tier = np.concatenate(tiers)
    found = {}
    for source in by_source[0]:
        values = np.concatenate([each[source] for each in by_source])
        known = np.isfinite(values)
        rows = [np.sort(values[known & (tier == t)]) for t in range(len(pool.tiers))]
        for name, row in zip((each.name for each in pool.tiers), rows, strict=True):
            if len(row) < FEWEST_OF_A_TIER:
                raise BundleError(
                    f"tier {name}: {len(row)} requests to calibrate by, fewer than {FEWEST_OF_A_TIER}; it "
                    "gets no traffic at any load: check its limits and step times"
                )
        found[source] = Residuals.of([_thinned(row) for row in rows])
    return found


def _thinned(ascending: Floats) -> Floats:
    if len(ascending) <= MOST_OF_A_TIER:
        return ascending
    at = (np.arange(MOST_OF_A_TIER) + 0.5) / MOST_OF_A_TIER * len(ascending)
    return ascending[at.astype(np.int64)]


def _context(bundle: Bundle, view: GridView, pool: Pool) -> SweepContext:
    """As of a sweep over the train split."""
    experiment = Experiment.model_validate(
        {
            "name": "calibration",
            "grid": "grid",
            "bundle": "bundle",
            "pool": "pool",
            "workload": {"split": "train", "metric": view.metric, "rates_per_s": [1.0]},
            "policies": [{"kind": "passthrough", "dispatch": ["shortest-queue"]}],
        }
    )
    rows = usable_rows(view, experiment.workload, pool.models)
    prompts = build_prompt_table(view, rows, pool.models, predict_prompts(bundle, view, rows))
    lengths = length_rules(bundle, pool.models)
    return SweepContext(with_encoder_cost(experiment, bundle), pool, prompts, bundle.tpot, lengths)
