"""What sets the workloads of two cells apart, seen from their requests."""

from __future__ import annotations

import numpy as np

from rbx.report.load import Cell
from rbx.report.number import significant
from rbx.report.requests import Ints

_TO_A_MICROSECOND_S = 1e-6


def why_different(a: Cell, b: Cell, number_a: Ints, number_b: Ints) -> str:
    """Empty where both faced the same requests; ``number_a`` and ``number_b`` number prompts alike.

    Prompts and arrivals are compared themselves: the hash numbers prompts by the rows of its own grid.
    """
    one, other = a.requests, b.requests
    if len(one.prompt) != len(other.prompt):
        return f"{len(one.prompt):,} requests in A, {len(other.prompt):,} in B"
    reasons = []
    prompts_a, prompts_b = number_a[one.prompt], number_b[other.prompt]
    if not np.array_equal(prompts_a, prompts_b):
        shared = len(np.intersect1d(prompts_a, prompts_b))
        reasons.append(
            "the same prompts in another order"
            if shared == len(np.unique(prompts_a)) == len(np.unique(prompts_b))
            else f"other prompts ({shared:,} of {len(np.unique(prompts_a)):,} in common)"
        )
    gap_s = float(np.abs(one.scheduled_s - other.scheduled_s).max(initial=0.0))
    if gap_s > _TO_A_MICROSECOND_S:
        reasons.append(f"other arrival times (up to {significant(gap_s)} s apart)")
    if not np.array_equal(one.ttft_target_s, other.ttft_target_s, equal_nan=True):
        reasons.append("other TTFT targets")
    if a.spec.workload_hash == b.spec.workload_hash:
        return "; ".join(reason for reason in reasons if "prompts" in reason)
    return "; ".join(reasons) or "the same prompts and arrivals; budgets or targets differ"
