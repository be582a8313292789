"""From a policy's configuration to the object that decides."""

from __future__ import annotations

import numpy as np

from rbx.config.policy import (
    BearPolicy,
    ExternalPolicy,
    RouteBalancePolicy,
    RoutedPolicy,
    ScorePolicy,
    SinglePolicy,
)
from rbx.errors import ConfigError
from rbx.policy.base import Policy
from rbx.policy.bear.router import Bear
from rbx.policy.dispatchers.build import build_score
from rbx.policy.pool_state import PoolShape
from rbx.policy.prompt_routers import BudgetedOnline, CheapestGoodEnough, HighestScore, model_prices
from rbx.policy.routebalance import RouteBalance, TpotPredictor
from rbx.policy.routed import Routed
from rbx.policy.routers import ANY_MODEL, Fixed, PromptBlindMix, Router
from rbx.policy.score import Score
from rbx.policy.scored import ScoredDispatch
from rbx.policy.ttft.build import LatencyModel
from rbx.policy.ttft.estimator import TtftEstimator
from rbx.policy.ttft.shuffled import Shuffled


def build_policy(
    config: SinglePolicy,
    models: tuple[str, ...],
    tpot: TpotPredictor,
    latency: LatencyModel,
    rng: np.random.Generator,
) -> Policy:
    """One policy object; ``rng`` is its own and drives nothing else.

    Raises ``ConfigError`` for what the pool lacks, and for a policy that is not ours to run.
    """
    shape = latency.shape
    if isinstance(config, ExternalPolicy):
        raise ConfigError(f"policy {config.label}: decides behind a live endpoint; nothing here can run it")
    if isinstance(config, RouteBalancePolicy):
        ttft = latency.estimator("bea") if config.latency == "bea" else None
        return RouteBalance(config, shape, tpot, ttft)
    if isinstance(config, BearPolicy):
        return Bear(config, shape, _estimator(config, latency, rng))
    if isinstance(config, ScorePolicy):
        return Score(config, latency)
    router_rng, dispatch_rng = rng.spawn(2)
    router = _build_router(config, models, shape, router_rng)
    if not isinstance(config.dispatch, str):
        return ScoredDispatch(router, build_score(config.dispatch, models, latency, dispatch_rng), shape)
    return Routed(router, config.dispatch, shape, len(models), dispatch_rng)


def _estimator(config: BearPolicy, latency: LatencyModel, rng: np.random.Generator) -> TtftEstimator | None:
    if config.ttft is None:
        return None
    estimator = latency.estimator(config.ttft, config)
    return Shuffled(estimator, rng) if config.shuffled else estimator


def _build_router(
    config: RoutedPolicy, models: tuple[str, ...], shape: PoolShape, rng: np.random.Generator
) -> Router:
    if config.trained_router is not None or config.router == "knn":
        return HighestScore(trained=config.router != "knn")
    if config.router == "omni-router" and config.min_quality is not None:
        return CheapestGoodEnough(config.min_quality, *model_prices(shape, len(models)))
    if config.router == "port" and config.mean_budget_usd is not None:
        return BudgetedOnline(config.mean_budget_usd, *model_prices(shape, len(models)), rng)
    if config.router == "passthrough":
        return Fixed(ANY_MODEL)
    if config.router == "always":
        if config.model not in models:
            raise ConfigError(f"policy {config.label}: the pool has no model {config.model!r}")
        return Fixed(models.index(config.model))
    if config.router == "mix" and config.shares:
        return PromptBlindMix(np.array([config.shares.get(model, 0.0) for model in models]), rng)
    return PromptBlindMix(np.ones(len(models)), rng)
