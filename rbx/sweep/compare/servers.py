"""The pool's tiers as servers of a live run: with the file's step times in its time scale, or fitted ones."""

from __future__ import annotations

from rbx.config.base import parse
from rbx.config.pool import Pool, Tier
from rbx.engine.instance_profile import StepCoefficients
from rbx.heads.step_time.report import ModelFit

Tiers = tuple[Tier, ...]  # one for each instance of the pool, in its order


def scaled_servers(pool: Pool, time_scale: float) -> Tiers:
    """Servers in real time whose clocks run ``time_scale`` times as fast as the pool file's."""
    return tuple(_scaled(instance.tier, time_scale) for instance in pool.instances)


def fitted_servers(pool: Pool, fits: dict[str, ModelFit], time_scale: float) -> Tiers:
    """Servers with the step times fitted to their tier; those without any keep the pool file's, scaled."""
    return tuple(
        _fitted(instance.tier, fits[instance.tier.name])
        if instance.tier.name in fits
        else _scaled(instance.tier, time_scale)
        for instance in pool.instances
    )


def _scaled(tier: Tier, time_scale: float) -> Tier:
    if time_scale == 1.0:
        return tier
    step_time = tier.step_time
    keys = [key for key in type(step_time).model_fields if key not in ("feature_set", "source")]
    faster = {key: getattr(step_time, key) / time_scale for key in keys}
    return tier.model_copy(update={"step_time": step_time.model_copy(update=faster)})


def _fitted(tier: Tier, fit: ModelFit) -> Tier:
    seconds = {item.name: item.seconds for item in fit.coefficients}
    content = tier.model_dump(mode="json")
    content["step_time"] = {"feature_set": fit.feature_set, "source": fit.fit_id, **seconds}
    return parse(Tier, content, where=f"step times fitted for {tier.name}")


def coefficients_b(tier: Tier) -> tuple[float, ...]:
    """A tier's step times in the six terms that the engine computes with."""
    return StepCoefficients.of(tier.step_time).as_b
