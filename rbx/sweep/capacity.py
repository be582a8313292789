"""The pool's capacity, so that an experiment can ask for loads instead of rates.

Capacity is the largest arrival rate that the pool sustains under passthrough with shortest-queue
dispatch: over the second half of the arrival window it completes at least 95 % of what arrives.
Found by bisection to 2 %. A policy that shifts work between tiers has another capacity of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from rbx.config.experiment import PoissonArrivals
from rbx.config.policy import RoutedPolicy
from rbx.errors import EngineError
from rbx.sweep.context import SweepContext
from rbx.sweep.simulate import SimulatedCell
from rbx.sweep.workload import draw_workload

_REFERENCE = RoutedPolicy(router="passthrough", dispatch="shortest-queue", batched=False)
_SUSTAINED = 0.95
_PRECISION = 0.02
_REQUESTS = 6000
_SLOWEST_PER_S, _FASTEST_PER_S = 1e-3, 1e5


@dataclass(frozen=True)
class Capacity:
    """Requests per second, and how they were found."""

    rate_per_s: float
    policy: str
    how: str


def measure_capacity(context: SweepContext, seed: int) -> Capacity:
    """Bisect between a sustained and an unsustained rate; raises ``EngineError`` if there is none."""
    low = 1.0
    while not sustains(context, low, seed):
        low /= 4
        if low < _SLOWEST_PER_S:
            raise EngineError(f"pool {context.pool.name}: not even {low:.4g} requests/s are sustained")
    high = _first_unsustained(lambda rate: sustains(context, rate, seed), low * 2)
    while high / low > 1 + _PRECISION:
        middle = float(np.sqrt(low * high))
        low, high = (middle, high) if sustains(context, middle, seed) else (low, middle)
    return Capacity(
        rate_per_s=float(f"{low:.4g}"),
        policy=_REFERENCE.label,
        how=(
            f"largest Poisson rate of which at least {_SUSTAINED:.0%} completes in the second half of "
            f"the arrival window; {_REQUESTS} requests, seed {seed}, bisected to {_PRECISION:.0%}"
        ),
    )


def _first_unsustained(holds: Callable[[float], bool], rate_per_s: float) -> float:
    while holds(rate_per_s):
        rate_per_s *= 2
        if rate_per_s > _FASTEST_PER_S:
            raise EngineError(f"the pool sustains even {rate_per_s:.4g} requests/s; give rates_per_s instead")
    return rate_per_s


def sustains(context: SweepContext, rate_per_s: float, seed: int) -> bool:
    """Whether the pool keeps up with a rate under the reference policy."""
    workload = context.experiment.workload.model_copy(
        update={"n_requests": _REQUESTS, "arrivals": PoissonArrivals(), "budget": None}
    )
    arriving = draw_workload(workload, len(context.prompts), rate_per_s, seed)
    done_s = SimulatedCell(context, _REFERENCE, arriving, seed).run().done_s
    end_s = arriving.scheduled_s[-1]
    arrived = np.sum(arriving.scheduled_s > end_s / 2)
    completed = np.sum((done_s > end_s / 2) & (done_s <= end_s))
    return bool(completed >= _SUSTAINED * arrived)
