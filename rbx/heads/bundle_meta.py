"""What a bundle knows of itself: encoder, grid, models, pool."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from rbx.config.base import digest
from rbx.config.pool import Tier


@dataclass(frozen=True)
class TierIdentity:
    """A tier as far as its heads depend on it; ``engine_digest`` covers model, limits, step time, prior."""

    name: str
    model: str
    engine_digest: str


def tier_identity(tier: Tier) -> TierIdentity:
    """Identity of a tier without its prices, its number of instances and its notes."""
    data = tier.model_dump(mode="json", include={"model", "limits", "step_time", "tpot_prior_s"})
    data["step_time"].pop("source")
    return TierIdentity(tier.name, tier.model, digest(data))


@dataclass(frozen=True)
class ModelStatistics:
    """Labels of one model over the training prompts."""

    model: str
    n_scores: int
    mean_score: float
    n_lengths: int
    mean_length_tokens: float


@dataclass(frozen=True)
class BundleMeta:
    """Everything that identifies a bundle's training, without its arrays.

    ``reserve_tokens`` (a number a model) is the ``reserve_quantile`` of the positive residuals of length.
    """

    encoder_name: str
    encoder_digest: str
    encoder_dim: int
    grid_name: str
    grid_digest: str
    synthetic: bool
    metric: str
    k: int
    seed: int
    models: tuple[str, ...]
    statistics: tuple[ModelStatistics, ...]
    reserve_quantile: float
    reserve_tokens: tuple[int, ...]
    pool_name: str
    pool_digest: str
    tiers: tuple[TierIdentity, ...]
    versions: dict[str, str]

    def as_json(self) -> dict[str, Any]:
        """Plain data."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> BundleMeta:
        """Read back ``as_json``; raises ``TypeError`` or ``KeyError`` where a key is unknown or missing."""
        return cls(
            **{
                **data,
                "models": tuple(data["models"]),
                "reserve_tokens": tuple(data["reserve_tokens"]),
                "statistics": tuple(ModelStatistics(**item) for item in data["statistics"]),
                "tiers": tuple(TierIdentity(**item) for item in data["tiers"]),
            }
        )
