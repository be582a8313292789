"""From a filter's configuration to the policy behind it."""

from __future__ import annotations

import math

from rbx.config.experiment import Slo
from rbx.config.filter import (
    BudgetFilter,
    CdfFilter,
    FilterRule,
    LatencyRule,
    PolyServeFilter,
    QlmFilter,
    SlosServeFilter,
    TimeBillFilter,
)
from rbx.errors import ConfigError
from rbx.heads.residuals import Residuals
from rbx.policy.base import Policy
from rbx.policy.filters.calibrated import LikelyWithinTargets, SafelyWithinTargets
from rbx.policy.filters.filtered import Filtered
from rbx.policy.filters.outlook import LatencyForecast, Targets
from rbx.policy.filters.rule import (
    BothWithinTargets,
    Everybody,
    Rule,
    WithinBudget,
    WithinJointTarget,
    WithinTimeBudget,
)
from rbx.policy.routebalance import TpotPredictor
from rbx.policy.ttft.build import LatencyModel


def behind_filter(
    config: FilterRule, policy: Policy, tpot: TpotPredictor, latency: LatencyModel, slo: Slo
) -> Filtered:
    """``policy`` behind the filter; raises ``ConfigError`` where a calibration or a target is missing.

    A TTFT target is not asked for: requests may bring their own.
    """
    if lacks := config.lacks(**{**slo.targeted, "ttft": True}):
        raise ConfigError(f"filter {config.kind} {lacks}")
    forecast = None
    if isinstance(config, LatencyRule):
        heads = tpot if config.tpot == "xgboost" else None
        forecast = LatencyForecast(latency.shape, latency.estimator(config.ttft), heads)
    rule, targets = _rule(config, latency), _targets(config, slo)
    return Filtered(config, rule, policy, latency.shape, targets, forecast)


def _targets(config: FilterRule, slo: Slo) -> Targets:
    """The filter's own before those of the workload; a TTFT target of the workload is each request's."""
    own_ttft_s = own_tpot_s = own_e2e_s = None
    if isinstance(config, LatencyRule):
        own_ttft_s, own_tpot_s = config.ttft_s, config.tpot_s
    if isinstance(config, TimeBillFilter):
        own_e2e_s = config.time_budget_s
    targets = own_ttft_s, own_tpot_s or slo.tpot_s, own_e2e_s or slo.e2e_s
    return Targets(*(math.inf if value is None else value for value in targets))


def _rule(config: FilterRule, latency: LatencyModel) -> Rule:
    tier = latency.shape.tier
    if isinstance(config, CdfFilter):
        return LikelyWithinTargets(config.theta, config.mode == "tiered", *_residuals(config, latency), tier)
    if isinstance(config, QlmFilter):
        return SafelyWithinTargets(config.confidence, *_residuals(config, latency), tier)
    if isinstance(config, SlosServeFilter):
        return BothWithinTargets()
    if isinstance(config, PolyServeFilter):
        return WithinJointTarget()
    if isinstance(config, TimeBillFilter):
        return WithinTimeBudget()
    return WithinBudget() if isinstance(config, BudgetFilter) else Everybody()


def _residuals(config: LatencyRule, latency: LatencyModel) -> tuple[Residuals, Residuals]:
    """Of TTFT and of TPOT, from the sources that the filter predicts by."""
    calibration = latency.calibration
    if calibration is None:
        raise ConfigError(
            f"filter {config.kind}: asks how far off predictions have been, and the bundle does not know; "
            "measure it: rbx train GRID --pool POOL --out BUNDLE --calibrate"
        )
    return calibration.ttft[config.ttft], calibration.tpot[config.tpot]
