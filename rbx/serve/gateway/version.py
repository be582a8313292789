"""One version of the configuration, ready to decide, and how it is made."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from rbx.config.base import digest
from rbx.config.experiment import Slo
from rbx.config.filter import Filterable, LatencyRule
from rbx.config.gateway import GatewayConfig
from rbx.config.policy import BearPolicy, RouteBalancePolicy, RoutedPolicy, ScorePolicy, SinglePolicy
from rbx.config.pool import Pool
from rbx.config.references import SIMULATED_ONLY
from rbx.errors import ConfigError
from rbx.heads.bundle import Bundle
from rbx.heads.routers.head import RouterHead
from rbx.policy.base import Policy
from rbx.policy.build import build_policy
from rbx.policy.pool_state import PoolShape
from rbx.policy.routed import Routed
from rbx.policy.routers import ANY_MODEL, Fixed
from rbx.policy.ttft.build import LatencyModel
from rbx.scheduler.decision_cost import DecisionTimes
from rbx.scheduler.runtime import SchedulerRuntime
from rbx.serve.gateway.decider import Decider
from rbx.serve.gateway.foresight import Foresight
from rbx.serve.gateway.latency_model import latency_model
from rbx.serve.gateway.live_table import LiveTable
from rbx.serve.gateway.restricted import RestrictedPolicy
from rbx.serve.gateway.room import room_of, seats_of
from rbx.serve.gateway.scoring.build import build_stage
from rbx.serve.gateway.scoring.router import asked_by
from rbx.serve.gateway.watching import Watching
from rbx.serve.upstream.breaker import Breakers

# A decision takes its own time here; none is added.
NO_TIME = DecisionTimes(0.0, 0.0, 0.0, 0.0, 1)
TYPICAL_PROMPT_TOKENS = 256.0  # where nothing tells


@dataclass(frozen=True)
class Version:
    """``number`` counts from 1; ``digest`` identifies ``config``. A request keeps the version it came under.

    ``fresh_policy`` makes another object of the same policy, with nothing learned. ``seats`` (I,) is how
    many requests each instance works on at once; ``prompt_tokens`` what a mean prompt is taken to have;
    ``only_model`` the index of the model that the policy sends everything to, if it is such a policy.
    """

    number: int
    config: GatewayConfig
    digest: str
    policy: SinglePolicy
    decider: Decider
    fresh_policy: Callable[[], Policy]
    shape: PoolShape
    seats: NDArray[np.int64]
    prompt_tokens: float
    only_model: int | None
    router: RouterHead | None

    @property
    def label(self) -> str:
        """Number and the digest's beginning, as in the header ``x-rbx-config-version``."""
        return f"{self.number}-{self.digest[:12]}"


@dataclass(frozen=True)
class Surroundings:
    """What outlives every version: the pool, its heads, its watch and its breakers."""

    pool: Pool
    bundle: Bundle | None
    foresight: Foresight
    watch: Watching
    breakers: Breakers
    clock: Callable[[], float]
    seed: int


def build_version(number: int, config: GatewayConfig, around: Surroundings) -> Version:
    """Make policy and runtime; takes long, so call it off the loop. Raises ``ConfigError``."""
    pool = around.pool
    single = config.single_policy(pool.models)
    _check_policy(single, around.bundle)
    router = asked_by(single, around.bundle, pool)
    prompt_tokens = typical_prompt_tokens(config, around.bundle)
    latency = latency_model(pool, around.bundle, prompt_tokens, config.max_output_tokens)
    policy = policy_of(single, around, latency, config.slo)
    if policy.needs.predictions and around.bundle is None:
        raise ConfigError(f"policy {single.label} predicts from the prompt; give a bundle (--bundle)")
    # Room for all that may be in flight, and for as many that a learning policy has yet to hear of.
    seats = seats_of(pool, prompt_tokens, around.foresight.mean_length_tokens)
    live = live_table(2 * (config.admission.max_in_flight or room_of(seats)), pool)
    restricted = RestrictedPolicy(policy, shortest_queue(around, latency.shape), live)
    runtime = SchedulerRuntime(
        config.scheduler, restricted, latency.shape, live.columns, NO_TIME, batched=single.batched
    )
    decider = Decider(
        runtime,
        restricted,
        live,
        around.foresight,
        around.watch,
        around.breakers,
        around.clock,
        encode_s=config.deadlines.encode_s,
        eager=config.scheduler.batching.eager,
        router=router,
        stage=build_stage(single, around.bundle, pool, router, around.clock, config.deadlines.encode_s),
    )
    identity = digest(config.model_dump(mode="json"))
    fresh = partial(policy_of, single, around, latency, config.slo)
    only = single.model if isinstance(single, RoutedPolicy) else None
    return Version(
        number,
        config,
        identity,
        single,
        decider,
        fresh,
        latency.shape,
        seats,
        prompt_tokens,
        None if only is None else pool.models.index(only),
        router,
    )


def typical_prompt_tokens(config: GatewayConfig, bundle: Bundle | None) -> float:
    """Of the configuration, else the mean over the bundle's training prompts where it tells it."""
    if config.typical_prompt_tokens is not None:
        return float(config.typical_prompt_tokens)
    told = bundle.report.get("mean_input_tokens") if bundle is not None else None
    if isinstance(told, float) and math.isfinite(told) and told >= 1.0:
        return told
    return TYPICAL_PROMPT_TOKENS


def live_table(rows: int, pool: Pool) -> LiveTable:
    """An empty table for requests to ``pool``."""
    return LiveTable(rows, len(pool.instances), len(pool.models))


def shortest_queue(around: Surroundings, shape: PoolShape) -> Policy:
    """What decides where the policy can't."""
    rng = np.random.default_rng(around.seed)
    return Routed(Fixed(ANY_MODEL), "shortest-queue", shape, len(around.pool.models), rng)


def policy_of(single: SinglePolicy, around: Surroundings, latency: LatencyModel, slo: Slo) -> Policy:
    """A policy object of its own, with nothing learned yet."""
    tpot = _NoTpot() if around.bundle is None else around.bundle.tpot
    rng = np.random.default_rng([around.seed, 0])
    return build_policy(single, around.pool.models, tpot, latency, rng, slo)


class _NoTpot:
    """Without a bundle no policy that asks is let through."""

    def predict(
        self, features: np.ndarray[tuple[int, ...], np.dtype[np.float64]], tier_of_instance: object
    ) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
        """Nobody asks."""
        raise ConfigError("TPOT is predicted by a bundle, and there is none")


def _check_policy(single: SinglePolicy, bundle: Bundle | None) -> None:
    rule = single.filter if isinstance(single, Filterable) else None
    if bundle is None and isinstance(rule, LatencyRule) and rule.tpot == "xgboost":
        raise ConfigError(
            f"policy {single.label}: its filter predicts TPOT by the heads; give a bundle (--bundle), or "
            "tpot: prior"
        )
    if isinstance(single, RoutedPolicy) and single.router in SIMULATED_ONLY:
        raise ConfigError(
            f"policy {single.label}: {SIMULATED_ONLY[single.router]}; only a simulated sweep can run it"
        )
    if isinstance(single, BearPolicy) and single.true_lengths:
        raise ConfigError(
            f"policy {single.label}: true_lengths is for simulated pools; nobody knows them here"
        )
    if bundle is None and isinstance(single, (RouteBalancePolicy, BearPolicy, ScorePolicy)):
        raise ConfigError(f"policy {single.label} predicts from the prompt; give a bundle (--bundle)")
