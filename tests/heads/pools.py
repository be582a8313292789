"""A pool and a grid small enough to train on in a second or two."""

from __future__ import annotations

import numpy as np

from rbx.config.pool import EngineLimits, Pool, StepTimeA, Tier
from rbx.grid.schema import GridView
from rbx.grid.split import is_train


def tier(name: str, model: str, b0_s: float, **changes: object) -> Tier:
    values = {
        "name": name,
        "model": model,
        "gpu": "A30",
        "instances": 2,
        "price_in_usd_per_mtok": 0.1,
        "price_out_usd_per_mtok": 0.2,
        "tpot_prior_s": b0_s,
        "limits": EngineLimits(
            max_num_seqs=16, max_num_batched_tokens=512, max_model_len=1024, kv_blocks=1024
        ),
        "step_time": StepTimeA(
            b0_s=b0_s, b1_s_per_token=1e-4, b2_s_per_context_token=1e-7,
            b3_s_per_attention_unit=1e-9, source="made up for tests",
        ),
    }  # fmt: skip
    return Tier.model_validate({**values, **changes})


def pool(*tiers: Tier) -> Pool:
    return Pool(name="small", tiers=tiers or (tier("large-a", "large", 0.03), tier("tiny-b", "tiny", 0.01)))


def view(n: int = 240, seed: int = 0) -> GridView:
    """Prompts of four topics; topics decide quality and length, ``extra`` is a model no pool has."""
    rng = np.random.default_rng(seed)
    topics = ("algebra", "poetry", "history", "coding")
    prompts = tuple(f"{topics[i % 4]} question {i}" for i in range(n))
    topic = np.arange(n) % 4
    chance = np.array([[0.9, 0.2, 0.5], [0.9, 0.8, 0.5], [0.5, 0.9, 0.5], [0.9, 0.1, 0.5]])[topic]
    length = np.floor(40 * (1 + topic[:, None]) * rng.lognormal(0.0, 0.2, (n, 3))) + 1
    score = (rng.random((n, 3)) < chance).astype(np.float64)
    score[3, 0] = np.nan
    length[5, 1] = np.nan
    ids = tuple(f"p{i}" for i in range(n))
    return GridView(
        name="topics",
        digest="ab" * 32,
        synthetic=True,
        metric="quality",
        models=("tiny", "large", "extra"),
        prompt_ids=ids,
        prompts=prompts,
        sources=("made up",) * n,
        is_harmful=np.zeros(n, dtype=np.bool_),
        is_train=np.array([is_train(i) for i in ids]),
        input_tokens=np.full(n, 20, dtype=np.int64),
        output_tokens=length,
        score=score,
    )
