"""A workload: which prompts arrive when, under which budgets, at one rate and seed.

Every policy at one (rate, seed) faces the very same workload. The order of prompts depends on the
seed alone, so that rates are paired too.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rbx.config.experiment import Workload
from rbx.errors import ConfigError
from rbx.load.arrivals import arrival_times

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

# Each random stream of a seed has its own number, so that adding one never shifts another.
_ORDER, _ARRIVALS, _BUDGETS, POLICY_STREAM = 1, 2, 3, 4


MOST_REQUESTS = 10_000_000


def stream(seed: int, number: int) -> np.random.Generator:
    """Random stream ``number`` of a seed."""
    return np.random.default_rng([seed, number])


@dataclass(frozen=True)
class Arriving:
    """N requests: row of the prompt table, seconds from the start, budget (infinite: none)."""

    prompt: Ints
    scheduled_s: Floats
    budget_usd: Floats

    @property
    def hash(self) -> str:
        """Identity of the workload: two cells are paired when and only when it agrees."""
        sha = hashlib.sha256()
        for column in (self.prompt, self.scheduled_s, self.budget_usd):
            sha.update(np.ascontiguousarray(column).tobytes())
        return sha.hexdigest()[:16]


def draw_workload(config: Workload, n_prompts: int, rate_per_s: float, seed: int) -> Arriving:
    """The workload of one rate and seed over ``n_prompts`` prompts.

    Prompts come in passes, each a fresh permutation of all, so that counts differ by at most one.
    """
    n = _requests(config, n_prompts, rate_per_s)
    order = stream(seed, _ORDER)
    passes = -(-n // n_prompts)
    prompt = np.concatenate([order.permutation(n_prompts) for _ in range(passes)])[:n]
    scheduled_s = arrival_times(config.arrivals, rate_per_s, n, stream(seed, _ARRIVALS))
    return Arriving(prompt.astype(np.int64), scheduled_s, _budgets(config, n, stream(seed, _BUDGETS)))


def _requests(config: Workload, n_prompts: int, rate_per_s: float) -> int:
    asked = float(config.n_requests or n_prompts)
    if config.duration_s is not None:
        asked = max(1.0, config.duration_s * rate_per_s)
    if asked > MOST_REQUESTS:
        raise ConfigError(
            f"workload: {asked:.3g} requests in one cell at {rate_per_s:g} requests/s are more than "
            f"{MOST_REQUESTS:,}, the most that fit in memory; lower n_requests or duration_s"
        )
    return round(asked)


def _budgets(config: Workload, n: int, rng: np.random.Generator) -> Floats:
    budget_usd = np.full(n, np.inf)
    if config.budget is not None:
        has_one = rng.random(n) < config.budget.share
        drawn = rng.uniform(config.budget.low_usd, config.budget.high_usd, n)
        budget_usd[has_one] = drawn[has_one]
    return budget_usd
