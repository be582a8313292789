"""The pool of an experiment: its file, at the prices that the experiment sets."""

from __future__ import annotations

from pathlib import Path

from rbx.config.experiment import Experiment
from rbx.config.pool import Pool, load_pool
from rbx.errors import ConfigError


def priced_pool(experiment: Experiment, file: Path | None = None) -> Pool:
    """The pool of ``file``, or of the experiment's own, with ``experiment.prices`` in place of its prices.

    Raises ``ConfigError`` where a tier is priced that the pool lacks.
    """
    pool = load_pool(file or experiment.pool).value
    unknown = sorted(set(experiment.prices) - {tier.name for tier in pool.tiers})
    if unknown:
        raise ConfigError(
            f"experiment {experiment.name}: prices names {', '.join(unknown)}; the tiers of pool {pool.name} "
            f"are {', '.join(tier.name for tier in pool.tiers)}"
        )
    tiers = tuple(
        tier
        if (price := experiment.prices.get(tier.name)) is None
        else tier.model_copy(
            update={
                "price_in_usd_per_mtok": price.in_usd_per_mtok,
                "price_out_usd_per_mtok": price.out_usd_per_mtok,
            }
        )
        for tier in pool.tiers
    )
    return pool.model_copy(update={"tiers": tiers})
