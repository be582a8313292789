"""The pool's capacity, so that an experiment can ask for loads instead of rates.

Capacity is the largest arrival rate that the pool sustains under passthrough with
shortest-queue dispatch: over the second half of the arrival window at least 95 % of what arrives
completes. The window lasts twelve times the mean E2E of a nearly idle pool and at least one minute,
so that the filling of the batches is over by its second half, and holds 4,000 arrivals or more, so that
chance does not decide. Found by bisection to 2 %. A policy
that shifts work between tiers has another capacity of its own.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rbx.config.experiment import PoissonArrivals
from rbx.config.policy import RoutedPolicy
from rbx.errors import EngineError
from rbx.sweep.context import SweepContext
from rbx.sweep.simulate import SimulatedCell
from rbx.sweep.sustained import SUSTAINED_SHARE, Floats, is_sustained
from rbx.sweep.workload import draw_workload

_REFERENCE = RoutedPolicy(router="passthrough", dispatch="shortest-queue")
_PRECISION = 0.02
_SHORTEST_WINDOW_S = 60.0
_WINDOW_OVER_E2E = 12.0
_FEWEST_ARRIVALS = 4000
_SLOWEST_PER_S, _FASTEST_PER_S = 1e-3, 1e5


@dataclass(frozen=True)
class Capacity:
    """Requests per second, and how they were found."""

    rate_per_s: float
    policy: str
    how: str


def measure_capacity(context: SweepContext, seed: int) -> Capacity:
    """Bisect between a sustained and an unsustained rate; raises ``EngineError`` if there is none."""
    window_s = max(_SHORTEST_WINDOW_S, _WINDOW_OVER_E2E * _idle_e2e_s(context, seed))

    def sustains(rate_per_s: float) -> bool:
        if not _SLOWEST_PER_S <= rate_per_s <= _FASTEST_PER_S:
            raise EngineError(
                f"pool {context.pool.name}: no capacity between {_SLOWEST_PER_S:g} and {_FASTEST_PER_S:g} "
                "requests/s; give workload.rates_per_s instead of loads"
            )
        long_enough_s = max(window_s, _FEWEST_ARRIVALS / rate_per_s)
        return is_sustained(*_arrivals_and_completions(context, rate_per_s, long_enough_s, seed))

    low, high = 1.0, 2.0
    while not sustains(low):
        low, high = low / 4, low
    while sustains(high):
        low, high = high, high * 2
    while high / low > 1 + _PRECISION:
        middle = float(np.sqrt(low * high))
        low, high = (middle, high) if sustains(middle) else (low, middle)
    return Capacity(
        rate_per_s=float(f"{low:.4g}"),
        policy=_REFERENCE.label,
        how=(
            f"largest Poisson rate of which at least {SUSTAINED_SHARE:.0%} completes in the second half "
            f"of an arrival window of {window_s:.0f} s or more; seed {seed}, bisected to {_PRECISION:.0%}"
        ),
    )


def _idle_e2e_s(context: SweepContext, seed: int) -> float:
    """Mean E2E of one request in ten seconds: hardly anything shares a batch."""
    scheduled_s, done_s = _arrivals_and_completions(context, 0.1, 2000.0, seed)
    lost = float(np.mean(np.isnan(done_s)))
    if lost > 1 - SUSTAINED_SHARE:
        raise EngineError(
            f"pool {context.pool.name}: {lost:.0%} of the requests fit no instance's max_model_len, so no "
            "rate is sustained; raise the limits of the pool, or give workload.rates_per_s instead of loads"
        )
    return float(np.nanmean(done_s - scheduled_s))


def _arrivals_and_completions(
    context: SweepContext, rate_per_s: float, window_s: float, seed: int
) -> tuple[Floats, Floats]:
    changes = {"n_requests": None, "duration_s": window_s, "arrivals": PoissonArrivals(), "budget": None}
    workload = context.experiment.workload.model_copy(update=changes)
    arriving = draw_workload(workload, context.prompts.input_tokens, rate_per_s, seed)
    return arriving.scheduled_s, SimulatedCell(context, _REFERENCE, arriving, seed).run().done_s
