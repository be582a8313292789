"""How many requests per second the scoring of each policy can take in virtual time."""

from __future__ import annotations

import math
from collections.abc import Iterable

from rbx.config.deployment import ScoringQueue
from rbx.config.policy import RoutedPolicy, SinglePolicy
from rbx.scheduler.batching import largest_batch
from rbx.scheduler.scoring_stage import fastest_per_s
from rbx.sweep.context import SweepContext


def scoring_rates(context: SweepContext, policies: Iterable[SinglePolicy]) -> dict[str, float]:
    """Requests per second by label, of policies scored before their batch or at a stated cost.

    In full calls of the sweep's prompts; for one that scores with its batch the rest of the decision is in
    it. A policy whose scoring costs nothing has no rate.
    """
    rates = {policy.label: _rate(context, policy) for policy in policies if isinstance(policy, RoutedPolicy)}
    return {label: rate for label, rate in rates.items() if rate is not None and math.isfinite(rate)}


def _rate(context: SweepContext, policy: RoutedPolicy) -> float | None:
    tokens, times = context.prompts.input_tokens, context.times_of(policy)
    queue = policy.deployment.queue
    if queue is not None:
        return fastest_per_s(tokens, queue, times.scoring)
    if policy.router not in context.experiment.scheduler.scoring_cost:
        return None
    size = largest_batch(context.experiment.scheduler.batching) if policy.batched else 1
    batch = ScoringQueue(workers=1, max_size=size, window_s=0.0, rpc_s=0.0)
    return 1.0 / (1.0 / fastest_per_s(tokens, batch, times.scoring) + times.score_s(size) / size)
