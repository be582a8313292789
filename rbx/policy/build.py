"""From a policy's configuration to the object that decides."""

from __future__ import annotations

import numpy as np

from rbx.config.policy import RouteBalancePolicy, RoutedPolicy
from rbx.errors import ConfigError
from rbx.policy.base import Policy
from rbx.policy.pool_state import PoolShape
from rbx.policy.routebalance import RouteBalance, TpotPredictor
from rbx.policy.routed import Routed
from rbx.policy.routers import ANY_MODEL, Fixed, PromptBlindMix, Router


def build_policy(
    config: RouteBalancePolicy | RoutedPolicy,
    shape: PoolShape,
    models: tuple[str, ...],
    tpot: TpotPredictor,
    rng: np.random.Generator,
) -> Policy:
    """One policy object; ``rng`` is its own and drives nothing else."""
    if isinstance(config, RouteBalancePolicy):
        return RouteBalance(config, shape, tpot)
    router_rng, dispatch_rng = rng.spawn(2)
    router = _build_router(config, models, router_rng)
    return Routed(router, config.dispatch, shape, len(models), dispatch_rng)


def _build_router(config: RoutedPolicy, models: tuple[str, ...], rng: np.random.Generator) -> Router:
    if config.router == "passthrough":
        return Fixed(ANY_MODEL)
    if config.router == "always":
        if config.model not in models:
            raise ConfigError(f"policy {config.label}: the pool has no model {config.model!r}")
        return Fixed(models.index(config.model))
    if config.router == "mix" and config.shares:
        return PromptBlindMix(np.array([config.shares.get(model, 0.0) for model in models]), rng)
    return PromptBlindMix(np.ones(len(models)), rng)
