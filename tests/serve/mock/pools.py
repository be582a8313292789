"""A small pool with round figures: decode steps of 10 ms, a millisecond of prefill a token."""

from __future__ import annotations

from rbx.config.base import parse
from rbx.config.pool import Pool, Tier

LIMITS = {"max_num_seqs": 64, "max_num_batched_tokens": 512, "max_model_len": 4096, "kv_blocks": 1000}
STEP = {
    "feature_set": "C",
    "b0_s": 0.01,
    "prefill_s_per_token": 0.001,
    "decode_s_per_seq": 0.0,
    "source": "made up for a test",
}


def small_pool(**limits: int) -> Pool:
    """``twin/0`` and ``twin/1`` of model ``small``; ``alone/0`` of ``large`` has one seat."""
    one_seat = {**LIMITS, **limits, "max_num_seqs": 1}
    tiers = [_tier("twin", "small", 2, {**LIMITS, **limits}), _tier("alone", "large", 1, one_seat)]
    return parse(Pool, {"name": "small-pool", "tiers": tiers}, where="a test")


def small_tier(**limits: int) -> Tier:
    """The tier ``twin``."""
    return small_pool(**limits).tiers[0]


def _tier(name: str, model: str, instances: int, limits: dict[str, int]) -> dict[str, object]:
    return {
        "name": name,
        "model": model,
        "gpu": "none",
        "instances": instances,
        "price_in_usd_per_mtok": 0.1,
        "price_out_usd_per_mtok": 0.1,
        "tpot_prior_s": 0.01,
        "limits": limits,
        "step_time": STEP,
    }
