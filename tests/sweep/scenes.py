"""A small sweep in memory: two tiers, random prompts, heads that are wrong in known ways."""

from __future__ import annotations

from typing import Any

import numpy as np

from rbx.config.base import parse
from rbx.config.experiment import Experiment
from rbx.config.pool import Pool
from rbx.heads.bea.lengths import LengthRule
from rbx.sweep.context import SweepContext
from rbx.sweep.prompts import PromptTable

MODELS = ("small", "large")


class StateTpot:
    """A TPOT head that reads the state, so that a wrong snapshot changes decisions."""

    def predict(self, features: np.ndarray, tier_of_instance: np.ndarray) -> np.ndarray:
        base = np.array([0.010, 0.035])[tier_of_instance]
        tpot: np.ndarray = base * (1.0 + 0.02 * features[:, 0] + 0.1 * features[:, 5])
        return tpot


def tier(model: str, instances: int, price: float, b0_s: float, seats: int) -> dict[str, Any]:
    return {
        "name": f"{model}_gpu",
        "model": model,
        "gpu": "GPU",
        "instances": instances,
        "price_in_usd_per_mtok": price,
        "price_out_usd_per_mtok": price,
        "tpot_prior_s": b0_s,
        "limits": {
            "max_num_seqs": seats,
            "max_num_batched_tokens": 512,
            "max_model_len": 2048,
            "kv_blocks": 400,
        },
        "step_time": {
            "b0_s": b0_s,
            "b1_s_per_token": 2e-5,
            "b2_s_per_context_token": 1e-7,
            "b3_s_per_attention_unit": 1e-9,
            "source": "made up for a test",
        },
    }


def small_pool(seats: int = 8) -> Pool:
    tiers = [tier("small", 3, 0.06, 0.010, seats), tier("large", 2, 0.40, 0.035, seats)]
    return parse(Pool, {"name": "small", "tiers": tiers}, where="test")


def experiment(**changes: Any) -> Experiment:
    workload = {
        "rates_per_s": [20.0],
        "n_requests": 300,
        "max_output_tokens": 400,
        **changes.pop("workload", {}),
    }
    cost = {"encode_s_per_request": 0.002, "encode_s_per_token": 0.0001, "encode_max_tokens": 256}
    scheduler = {"decision_cost": cost, **changes.pop("scheduler", {})}
    data = {
        "name": "test",
        "grid": "grid",
        "bundle": "bundle",
        "pool": "pool",
        "workload": workload,
        "scheduler": scheduler,
        "policies": [{"kind": "passthrough"}],
        **changes,
    }
    return parse(Experiment, data, where="test")


def small_context(seed: int = 0, *, seats: int = 8, **changes: Any) -> SweepContext:
    rng = np.random.default_rng(seed)
    n = 80
    output = rng.integers(1, 500, (n, 2))
    prompts = PromptTable(
        models=MODELS,
        prompt_ids=tuple(f"p{i:03d}" for i in range(n)),
        input_tokens=rng.integers(1, 300, n),
        output_tokens=output,
        score=np.where(rng.random((n, 2)) < 0.05, np.nan, rng.choice([0.0, 0.5, 1.0], (n, 2))),
        quality=rng.random((n, 2)).round(2),
        length_tokens=np.maximum(output * rng.uniform(0.5, 1.5, (n, 2)), 1.0).round(),
    )
    return SweepContext(experiment(**changes), small_pool(seats), prompts, StateTpot(), (LengthRule(),) * 2)
