"""What a model's tokens cost in a pool."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rbx.config.pool import Pool, Tier

Floats = NDArray[np.float64]


def model_prices_usd(pool: Pool) -> tuple[Floats, Floats]:
    """Prices of a token in and a token out, (M,) each: those of the model's tier with the cheapest output."""
    tiers = [_cheapest(pool, model) for model in pool.models]
    return (
        np.array([tier.price_in_usd_per_mtok for tier in tiers]) / 1e6,
        np.array([tier.price_out_usd_per_mtok for tier in tiers]) / 1e6,
    )


def _cheapest(pool: Pool, model: str) -> Tier:
    return min(
        (tier for tier in pool.tiers if tier.model == model),
        key=lambda tier: (tier.price_out_usd_per_mtok, tier.price_in_usd_per_mtok),
    )
