"""A workload: which prompts arrive when, under which budgets, at one rate and seed.

Every policy at one (rate, seed) faces the very same workload. The order of prompts depends on the
seed alone, so that rates are paired too.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rbx.config.experiment import Slo, Workload
from rbx.errors import ConfigError
from rbx.load.arrivals import arrival_times

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

# Each random stream of a seed has its own number, so that adding one never shifts another.
_ORDER, _ARRIVALS, _BUDGETS, POLICY_STREAM, _TARGETS = 1, 2, 3, 4, 5


MOST_REQUESTS = 10_000_000


def stream(seed: int, number: int) -> np.random.Generator:
    """Random stream ``number`` of a seed."""
    return np.random.default_rng([seed, number])


@dataclass(frozen=True)
class Arriving:
    """N requests: row of the prompt table, seconds from the start; budget and TTFT target, infinite: none."""

    prompt: Ints
    scheduled_s: Floats
    budget_usd: Floats
    ttft_target_s: Floats

    @property
    def hash(self) -> str:
        """Identity of the workload: two cells are paired when and only when it agrees."""
        sha = hashlib.sha256()
        for column in (self.prompt, self.scheduled_s, self.budget_usd, self.ttft_target_s):
            sha.update(np.ascontiguousarray(column).tobytes())
        return sha.hexdigest()[:16]


def draw_workload(config: Workload, input_tokens: Ints, rate_per_s: float, seed: int) -> Arriving:
    """The workload of one rate and seed over P prompts of ``input_tokens`` (P,).

    Prompts come in passes, each a fresh permutation of all, so that counts differ by at most one.
    """
    n_prompts = len(input_tokens)
    n = _requests(config, n_prompts, rate_per_s)
    order = stream(seed, _ORDER)
    passes = -(-n // n_prompts)
    prompt = np.concatenate([order.permutation(n_prompts) for _ in range(passes)])[:n]
    scheduled_s = arrival_times(config.arrivals, rate_per_s, n, stream(seed, _ARRIVALS))
    return Arriving(
        prompt=prompt.astype(np.int64),
        scheduled_s=scheduled_s,
        budget_usd=_budgets(config, n, stream(seed, _BUDGETS)),
        ttft_target_s=_targets(config.slo, input_tokens[prompt], stream(seed, _TARGETS)),
    )


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


def _targets(slo: Slo, input_tokens: Ints, rng: np.random.Generator) -> Floats:
    n, rule = len(input_tokens), slo.ttft_target
    if rule is None:
        return np.full(n, np.inf if slo.ttft_s is None else slo.ttft_s)
    jitter = rng.uniform(1.0 - rule.jitter, 1.0 + rule.jitter, n)
    target_s = (rule.base_s + rule.per_prompt_token_s * input_tokens) * jitter
    return np.asarray(np.clip(target_s, rule.low_s, rule.high_s))
