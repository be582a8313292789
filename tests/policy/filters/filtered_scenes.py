"""A filter in front of a policy that takes the first who is left, and notes who that was."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from pydantic import TypeAdapter

from rbx.config.experiment import Slo
from rbx.config.filter import FilterConfig, FilterRule
from rbx.heads.calibration import Calibration
from rbx.heads.residuals import Residuals
from rbx.policy.ask import asks
from rbx.policy.base import Assignment, Ints, Needs
from rbx.policy.filters.build import behind_filter
from rbx.policy.filters.filtered import Filtered
from rbx.policy.placing import Placing
from rbx.policy.pool_state import PoolShape, PoolState
from rbx.policy.request_table import RequestTable
from rbx.policy.ttft.build import LatencyModel
from rbx.policy.view import PoolView, Served
from tests.policy.algorithm1 import Server
from tests.policy.filters.plain_filter import Predictor
from tests.policy.scenes import shape_of, telemetry_of

_FILTER: TypeAdapter[Any] = TypeAdapter(FilterConfig)


def rule_of(**fields: Any) -> FilterRule:
    rule: FilterRule = _FILTER.validate_python(fields)
    return rule


class FixedTpot:
    def __init__(self, tpot_s: list[float]) -> None:
        self._tpot_s = np.array(tpot_s)

    def predict(self, features: np.ndarray, tier_of_instance: np.ndarray) -> np.ndarray:
        return self._tpot_s


class FirstLeft:
    """Sends each request to the first instance alive that holds it; ``left`` is who was alive."""

    needs = Needs()

    def __init__(self, shape: PoolShape) -> None:
        self._shape = shape
        self.left: list[set[int]] = []

    def assign(self, requests: Ints, table: RequestTable, view: PoolView, state: PoolState) -> Assignment:
        placing = Placing.of(len(requests), self._shape, state, 0)
        for ask in asks(requests, table, view, self._shape):
            self.left.append(set(np.flatnonzero(state.alive).tolist()))
            if state.alive.any():
                placing.put(ask, int(np.flatnonzero(state.alive)[0]))
        return placing.answer

    def learn(self, served: Served) -> None:
        raise AssertionError("it never asks")


def calibration_of(predictor: Predictor) -> Calibration | None:
    if not predictor.ttft_residuals:
        return None
    ttft = Residuals.of([np.array(values) for values in predictor.ttft_residuals])
    tpot = Residuals.of([np.array(values) for values in predictor.tpot_residuals])
    names = tuple(f"tier {t}" for t in range(len(predictor.ttft_residuals)))
    return Calibration(names, {"prefill-throughput": ttft}, {"xgboost": tpot}, {})


def filtered(
    rule: FilterRule, servers: list[Server], predictor: Predictor, slo: Slo
) -> tuple[Filtered, FirstLeft]:
    shape = shape_of(servers)
    latency = LatencyModel(shape, (), (), (), calibration_of(predictor))
    vars(latency)["speeds"] = _Speeds(np.array(predictor.tokens_per_s))
    first = FirstLeft(shape)
    return behind_filter(rule, first, FixedTpot(predictor.tpot_s), latency, slo), first


class _Speeds:
    """As much of ``Speeds`` as the estimator by prefill throughput asks for."""

    def __init__(self, prefill_tokens_per_s: np.ndarray) -> None:
        self.prefill_tokens_per_s = prefill_tokens_per_s


def view_after(servers: list[Server], waited_s: list[float]) -> PoolView:
    """A decision whose requests have waited so long already; nothing travels."""
    return PoolView(0.0, 0.0, 0.0, -np.array(waited_s), telemetry_of(servers))


def with_targets(table: RequestTable, ttft_s: float) -> RequestTable:
    return table._replace(ttft_target_s=np.full(len(table.input_tokens), ttft_s))


def slo_of(tpot_s: float = math.inf, e2e_s: float = math.inf) -> Slo:
    given = {"tpot_s": tpot_s, "e2e_s": e2e_s}
    return Slo(**{name: value for name, value in given.items() if value != math.inf})
