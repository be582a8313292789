"""``on_time.csv``: one row a policy and rate, with both kinds of interval and BEAR's gain."""

from __future__ import annotations

import math
from typing import Any

from rbx.report.ontime.gains import Rivalry
from rbx.report.ontime.series import METRICS
from rbx.report.ontime.study import OnTimeResult, OnTimeStudy
from rbx.report.written.records_csv import records_csv

_PLAIN = (
    "scheduled",
    "on_time",
    "coverage",
    "goodput_per_s",
    "cost_per_request_usd",
    "infeasible_share",
    "shed_share",
    "alarms",
)


def on_time_csv(study: OnTimeStudy) -> str:
    """The file's text; what is not known is left empty."""
    ratios = {}
    if study.comparison is not None:
        ratios = {(each.label, each.rate_per_s): each for each in study.comparison.rivalries}
    rows = [
        _row(result, ratios.get((result.point.label, result.point.rate_per_s))) for result in study.results
    ]
    return records_csv(rows)


def _row(result: OnTimeResult, rivalry: Rivalry | None) -> dict[str, Any]:
    row: dict[str, Any] = {
        "label": result.point.label,
        "part": result.role.words,
        "rate_per_s": result.point.rate_per_s,
    }
    for metric in METRICS:
        row[metric] = getattr(result.metrics, metric)
        for over in ("over_time", "over_prompts"):
            interval = getattr(result, over)[metric]
            row |= {f"{metric}_low_{over}": interval.low, f"{metric}_high_{over}": interval.high}
    row |= {name: getattr(result.metrics, name) for name in _PLAIN}
    for end in ("value", "low", "high"):
        row[f"bear_gain_{end}"] = math.nan if rivalry is None else getattr(rivalry.ratio, end)
    return row
