"""From an experiment file to a list of cells, each with the identity of everything it depends on."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

import rbx
from rbx.config.base import Loaded, digest
from rbx.config.experiment import DecisionCost, Experiment, SchedulerConfig, Slo, Workload
from rbx.config.filter import Filterable
from rbx.config.policy import ExternalPolicy, RoutedPolicy, SinglePolicy
from rbx.config.pool import Pool
from rbx.errors import ConfigError
from rbx.grid.schema import GridView
from rbx.grid.store import open_view
from rbx.heads.bundle import Bundle
from rbx.heads.length_rules import length_rules
from rbx.policy.build import build_policy
from rbx.scheduler.batching import largest_batch
from rbx.sweep.capacity import Capacity, measure_capacity
from rbx.sweep.context import SweepContext
from rbx.sweep.cut_answers import grade_again
from rbx.sweep.decided_by import decided_by
from rbx.sweep.live.asked import asked_as_the_grid
from rbx.sweep.live.identifying import live_identity
from rbx.sweep.opinions import router_opinions
from rbx.sweep.prediction import predict_prompts
from rbx.sweep.priced_pool import priced_pool
from rbx.sweep.prompts import Coverage, PromptTable, build_prompt_table, coverage, usable_rows
from rbx.sweep.scoring_rates import scoring_rates
from rbx.sweep.store import CellSpec
from rbx.sweep.workload import draw_workload

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Plan:
    """A sweep before it runs; ``manifest`` is what will be written beside its cells."""

    context: SweepContext
    cells: tuple[CellSpec, ...]
    manifest: dict[str, Any]


def make_plan(loaded: Loaded[Experiment]) -> Plan:
    """Read grid, bundle and pool, check that they fit, and lay out the cells.

    Raises ``ConfigError``, ``DatasetError`` or ``BundleError`` before anything is written.
    """
    experiment = asked_as_the_grid(loaded.value)
    pool = priced_pool(experiment)
    view = open_view(experiment.grid, experiment.workload.metric)
    bundle = Bundle.load(experiment.bundle)
    bundle.check_grid(view)
    bundle.check_pool(pool)
    rows = usable_rows(view, experiment.workload, pool.models)
    policies = expand_policies(experiment, pool.models)
    prompts = build_prompt_table(view, rows, pool.models, predict_prompts(bundle, view, rows))
    scored = replace(prompts, score=_scored_by(experiment, rows, pool.models, prompts))
    again = grade_again(experiment, view, rows, scored)
    scored = replace(scored, answered_tokens=again.answered_tokens)
    opinions = router_opinions(experiment, scored, bundle, view, rows, policies, pool)
    prompts = replace(scored, router_score=opinions.scores)
    _check_tier_loss(experiment, pool)
    lengths = length_rules(bundle, pool.models)
    context = SweepContext(
        with_encoder_cost(experiment, bundle),
        pool,
        prompts,
        bundle.tpot,
        lengths,
        bundle.calibration,
        opinions.chains,
    )
    for policy in policies:
        if isinstance(policy, ExternalPolicy):
            continue
        # Built once, so that what does not fit the pool is told before hours of work.
        slo = experiment.workload.slo
        build_policy(policy, pool.models, bundle.tpot, context.latency, np.random.default_rng(0), slo)
    capacity = measure_capacity(context, seed=0) if experiment.workload.loads else None
    cells = _cells(context, _identity(view, bundle, pool, context.experiment), capacity, bundle)
    kept = coverage(view, experiment.workload, prompts)
    manifest = _manifest(loaded, context, view, bundle, capacity, kept)
    return Plan(context, cells, {**manifest, **opinions.noted, **again.noted})


def _scored_by(experiment: Experiment, rows: Ints, models: tuple[str, ...], prompts: PromptTable) -> Floats:
    """The labels (P, M) that cells are scored by: those that the heads predict, or another metric's."""
    metric = experiment.workload.scored_by
    if metric is None:
        return prompts.score
    view = open_view(experiment.grid, metric)
    score: Floats = view.score[np.ix_(rows, np.array([view.models.index(model) for model in models]))]
    return score


def _check_tier_loss(experiment: Experiment, pool: Pool) -> None:
    lost, names = experiment.tier_loss, [tier.name for tier in pool.tiers]
    if lost is not None and (lost.tier not in names or len(names) == 1):
        raise ConfigError(
            f"experiment {experiment.name}: tier_loss.tier is {lost.tier!r}; it must be one of several tiers "
            f"of pool {pool.name}: {', '.join(names)}"
        )


def with_encoder_cost(experiment: Experiment, bundle: Bundle) -> Experiment:
    """Fill the decision cost's open fields with the constants of the bundle's encoder."""
    encoder = bundle.encoder_cost()
    constants = {
        "encode_s_per_request": encoder.encode_s_per_request,
        "encode_s_per_token": encoder.encode_s_per_token,
        "encode_max_tokens": encoder.max_tokens,
    }
    given = experiment.scheduler.decision_cost.model_dump()
    filled = {key: constants[key] if value is None else value for key, value in given.items()}
    scheduler = experiment.scheduler.model_copy(update={"decision_cost": DecisionCost(**filled)})
    return experiment.model_copy(update={"scheduler": scheduler})


def expand_policies(experiment: Experiment, models: tuple[str, ...]) -> tuple[SinglePolicy, ...]:
    """Single policies in the order of the file; one asked for twice is kept once."""
    try:
        expanded = [policy for spec in experiment.policies for policy in spec.expand(models)]
    except ValueError as error:
        raise ConfigError(f"experiment {experiment.name}: {error}") from None
    unique = tuple(policy for k, policy in enumerate(expanded) if policy not in expanded[:k])
    labels = [policy.label for policy in unique]
    clash = sorted({label for label in labels if labels.count(label) > 1})
    if clash:
        raise ConfigError(
            f"experiment {experiment.name}: different policies share the label {', '.join(clash)}; numbers "
            "that differ by less than a label shows can't be told apart in a table, nor can two maps of "
            "constants: run them as two sweeps"
        )
    return unique


def _identity(view: GridView, bundle: Bundle, pool: Pool, experiment: Experiment) -> dict[str, Any]:
    """What every cell's id depends on beside its policy, rate and seed."""
    live = {} if experiment.live is None else {"live": live_identity(experiment.live)}
    workload = experiment.workload
    # What money is worth is the report's affair: it reads the manifest, and no cell depends on it.
    slo = workload.slo.model_copy(update={"cost_weight_per_usd": Slo().cost_weight_per_usd})
    # Settings of later versions stand in an identity only where they are made.
    later = {
        "scored_by": workload.scored_by,
        "n_prompts": workload.n_prompts,
        "cut_quality_exponent": workload.cut_quality_exponent,
        "cut_quality": workload.cut_quality,
        "tier_loss": experiment.tier_loss and experiment.tier_loss.model_dump(mode="json"),
    }
    return {
        **live,
        **{name: value for name, value in later.items() if value is not None},
        "rbx": rbx.__version__,
        "grid": view.digest,
        "metric": view.metric,
        "bundle": bundle.digest,
        "pool": pool.digest,
        "slo": slo.model_dump(mode="json"),
        "max_output_tokens": experiment.workload.max_output_tokens,
        "split": experiment.workload.split,
        "sources": experiment.workload.sources,
    }


def _cells(
    context: SweepContext, identity: dict[str, Any], capacity: Capacity | None, bundle: Bundle
) -> tuple[CellSpec, ...]:
    workload = context.experiment.workload
    policies = expand_policies(context.experiment, context.pool.models)
    cells = []
    for rate_per_s, load in planned_rates(workload, capacity):
        for seed in workload.seeds:
            arriving = draw_workload(workload, context.prompts.input_tokens, rate_per_s, seed)
            for policy in policies:
                described = policy.model_dump(mode="json")
                scheduler = _scheduler_of(policy, context.experiment.scheduler)
                key = {**identity, "scheduler": scheduler, "policy": described}
                key.update(workload=arriving.hash, seed=seed)
                key.update(decided_by(policy, bundle, context.prompts))
                if _asks_calibration(policy):
                    key["calibration"] = _calibration_digest(bundle)
                cells.append(
                    CellSpec(
                        cell_id=digest(key)[:16],
                        label=policy.label,
                        policy=described,
                        rate_per_s=rate_per_s,
                        load=load,
                        seed=seed,
                        workload_hash=arriving.hash,
                        n_requests=len(arriving.prompt),
                    )
                )
    return tuple(cells)


def _scheduler_of(policy: SinglePolicy, scheduler: SchedulerConfig) -> dict[str, Any]:
    """The scheduler as far as a policy depends on it: what other routers cost to ask is not its affair."""
    asked = policy.router if isinstance(policy, RoutedPolicy) else None
    own = {router: cost for router, cost in scheduler.scoring_cost.items() if router == asked}
    return scheduler.model_copy(update={"scoring_cost": own}).model_dump(mode="json")


def _asks_calibration(policy: SinglePolicy) -> bool:
    """Whether a policy stands behind a filter that asks how far off predictions have been."""
    return isinstance(policy, Filterable) and policy.asks_calibration


def _calibration_digest(bundle: Bundle) -> str | None:
    return None if bundle.calibration is None else bundle.calibration.digest


def _used_calibration(experiment: Experiment, pool: Pool, bundle: Bundle) -> dict[str, str | None]:
    used = any(_asks_calibration(policy) for policy in expand_policies(experiment, pool.models))
    return {"calibration": _calibration_digest(bundle)} if used else {}


def _other_metric(workload: Workload) -> dict[str, str]:
    return {} if workload.scored_by is None else {"scored_by": workload.scored_by}


def planned_rates(workload: Workload, capacity: Capacity | None) -> list[tuple[float, float | None]]:
    """Rates and the loads that they are, lowest first; no load is known where no capacity was measured."""
    if capacity is None:
        return [(rate, None) for rate in workload.rates_per_s]
    of_capacity = capacity.rate_per_s
    asked = {float(f"{load * of_capacity:.4g}"): load for load in workload.loads}
    also = {rate: float(f"{rate / of_capacity:.3g}") for rate in workload.rates_per_s}
    return sorted({**also, **asked}.items())


def _noted_rates(context: SweepContext) -> dict[str, Any]:
    """What scoring can take where a sweep says how it is deployed or what it costs."""
    if context.experiment.engine == "live":
        return {}
    rates = scoring_rates(context, expand_policies(context.experiment, context.pool.models))
    return {"scoring_per_s": rates} if rates else {}


def _manifest(
    loaded: Loaded[Experiment],
    context: SweepContext,
    view: GridView,
    bundle: Bundle,
    capacity: Capacity | None,
    kept: Coverage,
) -> dict[str, Any]:
    experiment, pool = context.experiment, context.pool
    sources = dict(loaded.sources)
    for key, value in loaded.value.scheduler.decision_cost.model_dump().items():
        if value is None:
            sources[f"scheduler.decision_cost.{key}"] = "bundle"
    if experiment.live is not None and sources.get("live.body") == "default":
        del sources["live.body"]
        sources.update({f"live.body.{key}": "grid" for key in experiment.live.body or {}})
    return {
        "name": experiment.name,
        "engine": experiment.engine,
        "simulated": experiment.engine == "sim",
        "synthetic_grid": view.synthetic,
        "grid": {
            "path": str(experiment.grid),
            "name": view.name,
            "digest": view.digest,
            "metric": view.metric,
            **_other_metric(experiment.workload),
            "coverage": vars(kept),
        },
        "bundle": {
            "path": str(experiment.bundle),
            "digest": bundle.digest,
            "encoder": bundle.meta.encoder_name,
            **_used_calibration(experiment, pool, bundle),
        },
        "pool": {
            "name": pool.name,
            "digest": pool.digest,
            "instances": [
                {"name": i.name, "tier": i.tier.name, "model": i.tier.model} for i in pool.instances
            ],
            "tiers": [tier.model_dump(mode="json") for tier in pool.tiers],
        },
        "capacity": None if capacity is None else vars(capacity),
        # Of a live sweep nobody knows: its gateway takes the time that it takes.
        "decision_loop_per_s": None
        if experiment.engine == "live"
        else context.times.fastest_per_s(
            context.prompts.input_tokens, largest_batch(experiment.scheduler.batching)
        ),
        **_noted_rates(context),
        "config": experiment.model_dump(mode="json"),
        "sources": sources,
    }
