"""From a policy's configuration to the object that decides."""

from __future__ import annotations

import numpy as np

from rbx.config.dispatch import DispatchConfig
from rbx.config.experiment import Slo
from rbx.config.filter import Filterable
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
from rbx.policy.filters.build import behind_filter
from rbx.policy.guarded import GuardedRouter
from rbx.policy.plugin import PluginInputs, made_by_plugin
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

NO_TARGETS = Slo()


def build_policy(
    config: SinglePolicy,
    models: tuple[str, ...],
    tpot: TpotPredictor,
    latency: LatencyModel,
    rng: np.random.Generator,
    slo: Slo = NO_TARGETS,
) -> Policy:
    """One policy object; ``rng`` is its own and drives nothing else, ``slo`` is what filters hold to.

    Raises ``ConfigError`` for what the pool lacks, and for a policy that is not ours to run.
    """
    policy = _unfiltered(config, models, tpot, latency, rng)
    if isinstance(config, Filterable) and config.filter is not None:
        return behind_filter(config.filter, policy, tpot, latency, slo)
    return policy


def _unfiltered(
    config: SinglePolicy,
    models: tuple[str, ...],
    tpot: TpotPredictor,
    latency: LatencyModel,
    rng: np.random.Generator,
) -> Policy:
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
    if isinstance(config, RoutedPolicy):
        router = _build_router(config, models, shape, router_rng)
        return _dispatched(router, config.dispatch, models, latency, dispatch_rng)
    made = made_by_plugin(config.name, PluginInputs(config.options, models, shape, router_rng))
    if isinstance(made, GuardedRouter):
        return _dispatched(made, config.dispatch or "shortest-queue", models, latency, dispatch_rng)
    if config.dispatch is not None:
        raise ConfigError(
            f"policy {config.label}: plug-in {config.name} picks the instance itself; leave dispatch out"
        )
    return made


def _dispatched(
    router: Router,
    dispatch: DispatchConfig,
    models: tuple[str, ...],
    latency: LatencyModel,
    rng: np.random.Generator,
) -> Policy:
    if not isinstance(dispatch, str):
        return ScoredDispatch(router, build_score(dispatch, models, latency, rng), latency.shape)
    return Routed(router, dispatch, latency.shape, len(models), rng)


def _estimator(config: BearPolicy, latency: LatencyModel, rng: np.random.Generator) -> TtftEstimator | None:
    if config.ttft is None:
        return None
    estimator = latency.estimator(config.ttft, config)
    return Shuffled(estimator, rng) if config.shuffled else estimator


def _build_router(
    config: RoutedPolicy, models: tuple[str, ...], shape: PoolShape, rng: np.random.Generator
) -> Router:
    if config.goes_by_score or config.router == "knn":
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
