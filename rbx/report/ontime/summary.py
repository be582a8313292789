"""The on-time part of ``summary.json``."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from rbx.report.ontime.estimator import REGIMES, EstimatorResult
from rbx.report.ontime.gains import AreaGain, Average, Comparison, Rivalry
from rbx.report.ontime.published import (
    AREA_OVER_BEST_BASELINE,
    CELLS,
    MAPE,
    OVER_BEST_BASELINE,
    OVER_LATENCY_AWARE,
    PREDICTION_S,
)
from rbx.report.ontime.study import OnTimeResult, OnTimeStudy


def summarise_on_time(study: OnTimeStudy, are_comparable: bool) -> dict[str, Any]:
    """A mapping of plain data, NaN included; published figures where the pool is theirs."""
    return {
        "cost_weight_per_usd": study.rule.cost_weight_per_usd,
        "intervals": {
            "over_time": "paired circular block bootstrap over consecutive requests",
            "over_prompts": "paired percentile bootstrap over prompts",
            "block_lengths": list(study.block_lengths),
        },
        "points": [_result(result) for result in study.results],
        "bear": None if study.comparison is None else _comparison(study.comparison),
        "estimators": [_estimator(each) for each in study.estimators],
        "published": _published() if are_comparable else None,
    }


def _result(result: OnTimeResult) -> dict[str, Any]:
    return {
        "label": result.point.label,
        "rate_per_s": result.point.rate_per_s,
        "role": asdict(result.role),
        "metrics": asdict(result.metrics),
        "over_time": {name: asdict(interval) for name, interval in result.over_time.items()},
        "over_prompts": {name: asdict(interval) for name, interval in result.over_prompts.items()},
    }


def _comparison(found: Comparison) -> dict[str, Any]:
    area = found.area_over_best
    return {
        "over_latency_aware_routers": _average(found.over_latency_aware),
        "over_best_baseline": _average(found.over_best),
        "area_over_best_baseline": None if area is None else _area(area),
        "areas": [_area(each) for each in found.areas],
        "settings": found.settings,
        "rivalries": [_rivalry(each) for each in found.rivalries],
        "lost": [{"label": each.label, "rate_per_s": each.rate_per_s} for each in found.lost],
        "behind": [{"label": each.label, "rate_per_s": each.rate_per_s} for each in found.behind],
    }


def _average(average: Average) -> dict[str, Any]:
    return {
        "gain": asdict(average.gain),
        "median": average.median,
        "terms": [{"label": label, "rate_per_s": rate} for label, rate in average.terms],
        "left_out": [{"label": label, "rate_per_s": rate} for label, rate in average.left_out],
    }


def _area(area: AreaGain) -> dict[str, Any]:
    return {
        "label": area.label,
        "role": asdict(area.role),
        "rates_per_s": list(area.rates_per_s),
        "bear": area.bear,
        "other": area.other,
        "gain": asdict(area.gain),
    }


def _rivalry(each: Rivalry) -> dict[str, Any]:
    return {
        "label": each.label,
        "rate_per_s": each.rate_per_s,
        "role": asdict(each.role),
        "ratio": asdict(each.ratio),
        "on_time_utility": asdict(each.utility),
        "attainment": asdict(each.attainment),
        "lost": each.is_lost,
    }


def _estimator(each: EstimatorResult) -> dict[str, Any]:
    return {
        "label": each.label,
        "rate_per_s": each.rate_per_s,
        "overall": asdict(each.overall),
        "regimes": {name: asdict(errors) for (name, _, _), errors in zip(REGIMES, each.regimes, strict=True)},
        "confusion": asdict(each.confusion),
        "undisturbed": asdict(each.undisturbed),
        "disturbed": asdict(each.disturbed),
        "late_undisturbed": each.late_undisturbed,
        "late_disturbed": each.late_disturbed,
    }


def _published() -> dict[str, Any]:
    return {
        "over_latency_aware_routers": OVER_LATENCY_AWARE,
        "over_best_baseline": OVER_BEST_BASELINE,
        "area_over_best_baseline": AREA_OVER_BEST_BASELINE,
        "mape": MAPE,
        "prediction_s": PREDICTION_S,
        "cells": [asdict(cell) for cell in CELLS],
    }
