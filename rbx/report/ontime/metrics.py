"""The on-time figures of one policy at one rate, its seeds together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rbx.report.load import Cell
from rbx.report.ontime.rule import OnTimeRule
from rbx.report.requests import Floats, Requests


@dataclass(frozen=True)
class OnTimeMetrics:
    """Shares are of all scheduled requests, except where said; NaN where there is nothing to measure.

    ``coverage`` is the share that counts in OnTimeUtility: all but those in time without a score.
    ``goodput_per_s`` is what completed in time before the last arrival, per second of the arrival
    window, a mean over seeds. ``infeasible_share`` is of the decisions of policies that predict TTFT:
    those that found no instance in time.
    """

    scheduled: int
    on_time: int
    attainment: float
    on_time_utility: float
    coverage: float
    ungated_utility: float
    goodput_per_s: float
    cost_per_request_usd: float
    model_share: dict[str, float]
    infeasible_share: float
    shed_share: float
    alarms: int


def measure_on_time(cells: Sequence[Cell], rule: OnTimeRule) -> OnTimeMetrics:
    """Measure the cells of one policy at one rate (one for each seed) together."""
    runs = [cell.requests for cell in cells]
    on_time = np.concatenate([run.on_time for run in runs])
    gated = np.concatenate([rule.on_time_utility(run) for run in runs])
    asked = np.concatenate([run.on_time_candidates for run in runs])
    n = len(on_time)
    return OnTimeMetrics(
        scheduled=n,
        on_time=int(on_time.sum()),
        attainment=float(on_time.mean()),
        on_time_utility=_mean(gated),
        coverage=float(np.isfinite(gated).mean()),
        ungated_utility=_mean(np.concatenate([rule.ungated_utility(run) for run in runs])),
        goodput_per_s=_mean(np.array([_goodput_per_s(run) for run in runs])),
        cost_per_request_usd=float(sum(run.cost_usd.sum() for run in runs)) / n,
        model_share=_model_share(runs, n),
        infeasible_share=_mean(np.where(np.isfinite(asked), asked == 0, np.nan)),
        shed_share=float(sum(run.shed.sum() for run in runs)) / n,
        alarms=sum(cell.summary.alarms for cell in cells),
    )


def _mean(values: Floats) -> float:
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else float("nan")


def _goodput_per_s(run: Requests) -> float:
    return float((run.on_time & run.ok_in_window).sum() / run.window_s) if run.window_s > 0 else float("nan")


def _model_share(runs: Sequence[Requests], n: int) -> dict[str, float]:
    """Of all scheduled requests: what failed or was shed is in no model's share."""
    served = np.concatenate([run.model[run.ok] for run in runs])
    names, counts = np.unique(served, return_counts=True)
    return {str(name): float(count / n) for name, count in zip(names, counts, strict=True)}
