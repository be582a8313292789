"""From a dispatcher's constants to its score."""

from __future__ import annotations

import numpy as np

from rbx.config.dispatch import (
    EwmaLatency,
    LeastWork,
    LmDeploy,
    Mooncake,
    PowerOfD,
    PredictedLatency,
    ScoreConfig,
    VllmSr,
)
from rbx.errors import ConfigError
from rbx.policy.dispatchers.ewma_latency import PastTtft
from rbx.policy.dispatchers.instance_score import Floats, InstanceScore
from rbx.policy.dispatchers.least_work import BacklogSeconds
from rbx.policy.dispatchers.llumnix import Freeness
from rbx.policy.dispatchers.lmdeploy import UnfinishedForSpeed
from rbx.policy.dispatchers.mooncake import PromptSeconds
from rbx.policy.dispatchers.power_of_d import FewQueues
from rbx.policy.dispatchers.predicted_latency import Headroom
from rbx.policy.dispatchers.vllm_sr import ModelPercentiles
from rbx.policy.ttft.build import LatencyModel


def build_score(
    config: ScoreConfig, models: tuple[str, ...], latency: LatencyModel, rng: np.random.Generator
) -> InstanceScore:
    """The score of one decision loop; ``rng`` is its own. Raises ``ConfigError`` for unknown models."""
    shape = latency.shape
    if isinstance(config, PowerOfD):
        return FewQueues(config, rng)
    if isinstance(config, LeastWork):
        return BacklogSeconds(config, latency.speeds)
    if isinstance(config, LmDeploy):
        return UnfinishedForSpeed(config, _requests_per_s(config, models, latency), rng)
    if isinstance(config, Mooncake):
        return PromptSeconds(config, latency.profiles)
    if isinstance(config, EwmaLatency):
        return PastTtft(config, shape.n_instances)
    if isinstance(config, VllmSr):
        return ModelPercentiles(config, shape.model)
    if isinstance(config, PredictedLatency):
        return Headroom(config, shape.tier)
    return Freeness(np.array([profile.limits.block_size for profile in latency.profiles]))


def _requests_per_s(config: LmDeploy, models: tuple[str, ...], latency: LatencyModel) -> Floats:
    given = config.requests_per_s
    if given is None:
        return latency.speeds.requests_per_s
    if set(given) != set(models):
        raise ConfigError(
            f"dispatcher lmdeploy: requests_per_s names {', '.join(sorted(given))}; give one speed for each "
            f"model of the pool: {', '.join(models)}"
        )
    return np.array([given[models[model]] for model in latency.shape.model.tolist()])
