"""A request's TTFT target where its client gave none."""

from __future__ import annotations

import math

from rbx.config.experiment import Slo


def ttft_target_s(slo: Slo, input_tokens: int) -> float:
    """From the configuration: the same for all, or by the prompt's tokens without the draw; else infinite."""
    if slo.ttft_s is not None:
        return slo.ttft_s
    rule = slo.ttft_target
    if rule is None:
        return math.inf
    return min(max(rule.base_s + rule.per_prompt_token_s * input_tokens, rule.low_s), rule.high_s)
