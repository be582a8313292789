"""What a gateway's policies know of the pool's latency before anything is served."""

from __future__ import annotations

import numpy as np

from rbx.config.pool import Pool
from rbx.engine.instance_profile import InstanceProfile
from rbx.heads.bea.lengths import LengthRule
from rbx.heads.bundle import Bundle
from rbx.heads.length_rules import length_rules
from rbx.heads.lps import Traffic
from rbx.policy.pool_state import PoolShape
from rbx.policy.ttft.build import LatencyModel


def latency_model(
    pool: Pool, bundle: Bundle | None, prompt_tokens: float, max_output_tokens: int
) -> LatencyModel:
    """From the training's answers and a typical prompt; without a bundle half the limit is expected.

    A sweep knows its workload's prompts and predictions; a gateway knows what it was trained on.
    """
    traffic = [Traffic(prompt_tokens, max(1.0, max_output_tokens / 2))] * len(pool.models)
    lengths: tuple[LengthRule, ...] = tuple(LengthRule() for _ in pool.models)
    if bundle is not None:
        answers = bundle.knn.labels.length_tokens
        means, spreads = np.nanmean(answers, axis=0), np.nanvar(answers, axis=0)
        traffic = [
            Traffic(prompt_tokens, max(1.0, float(mean)), float(spread / mean**2))
            for mean, spread in zip(means, spreads, strict=True)
        ]
        lengths = length_rules(bundle, pool.models)
    instances = pool.instances
    return LatencyModel(
        shape=PoolShape.of(pool),
        profiles=tuple(InstanceProfile.of(instance.tier) for instance in instances),
        traffic=tuple(traffic[instance.model_index] for instance in instances),
        lengths=lengths,
        calibration=None if bundle is None else bundle.calibration,
    )
