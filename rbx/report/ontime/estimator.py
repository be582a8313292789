"""TTFT as a policy predicted it for the instance it chose, against the TTFT that came."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.stats import rankdata

from rbx.report.point import Point
from rbx.report.requests import Bools, Floats, Requests

# Bounds of the regimes, by the TTFT that was measured; the upper one is exclusive.
REGIMES = (("below 100 ms", 0.0, 0.1), ("100 ms to 1 s", 0.1, 1.0), ("1 s and above", 1.0, np.inf))


@dataclass(frozen=True)
class EstimatorErrors:
    """Errors over ``n`` completed requests; APE is |predicted − measured| ÷ measured.

    ``bias_s`` is the mean of predicted − measured and ``relative_bias`` its sum over that of measured;
    ``spearman`` is the rank correlation over requests, ties at their mean rank.
    """

    n: int
    mape: float
    median_ape: float
    p90_ape: float
    bias_s: float
    relative_bias: float
    mean_absolute_s: float
    spearman: float


@dataclass(frozen=True)
class Confusion:
    """Requests by whether they were predicted to meet their target (first) and did (second)."""

    early_early: int
    early_late: int
    late_early: int
    late_late: int

    @property
    def agreement(self) -> float:
        """Share of requests on the predicted side; NaN without any."""
        n = self.early_early + self.early_late + self.late_early + self.late_late
        return (self.early_early + self.late_late) / n if n else float("nan")


@dataclass(frozen=True)
class EstimatorResult:
    """One policy's predictions at one rate; ``regimes`` holds the errors in each of ``REGIMES``.

    ``disturbed`` are requests whose instance was sent another one before their first token: a prediction
    at the decision can't know of it, and what comes later may share their steps. ``late_undisturbed`` and
    ``late_disturbed`` are the shares of each that missed their target.
    """

    label: str
    family: str
    rate_per_s: float
    overall: EstimatorErrors
    regimes: tuple[EstimatorErrors, ...]
    confusion: Confusion
    undisturbed: EstimatorErrors
    disturbed: EstimatorErrors
    late_undisturbed: float
    late_disturbed: float


@dataclass(frozen=True)
class Predictions:
    """n completed requests with a prediction: TTFTs and targets in seconds, each of shape (n,)."""

    predicted_s: Floats
    measured_s: Floats
    target_s: Floats
    disturbed: Bools


def predictions_of(point: Point) -> Predictions:
    """What the point's policy predicted for requests that completed, and what came."""
    runs = [cell.requests for cell in point.cells]
    predicted = np.concatenate([run.predicted_ttft_s for run in runs])
    measured = np.concatenate([run.ttft_s for run in runs])
    target = np.concatenate([run.ttft_target_s for run in runs])
    ok = np.concatenate([run.ok for run in runs])
    disturbed = np.concatenate([_disturbed(run) for run in runs])
    known = ok & np.isfinite(predicted) & np.isfinite(target) & (measured > 0)
    return Predictions(predicted[known], measured[known], target[known], disturbed[known])


def _disturbed(run: Requests) -> Bools:
    """Whether the instance of each request was sent another one after it and before its first token."""
    found = np.zeros(len(run.prompt), dtype=np.bool_)
    for name in np.unique(run.instance[np.isfinite(run.dispatched_s)]):
        mine = np.flatnonzero((run.instance == name) & np.isfinite(run.dispatched_s))
        sent_s = np.sort(run.dispatched_s[mine])
        after = np.searchsorted(sent_s, run.dispatched_s[mine], side="right")
        before = np.searchsorted(sent_s, run.first_token_s[mine], side="left")
        found[mine] = (before > after) & np.isfinite(run.first_token_s[mine])
    return found


def judge_estimator(point: Point) -> EstimatorResult | None:
    """How the policy's predictions fared; None where it made none that can be judged."""
    found = predictions_of(point)
    predicted, measured, disturbed = found.predicted_s, found.measured_s, found.disturbed
    if not len(predicted):
        return None
    regimes = [(low <= measured) & (measured < high) for _, low, high in REGIMES]
    late = measured > found.target_s
    return EstimatorResult(
        label=point.label,
        family=point.family,
        rate_per_s=point.rate_per_s,
        overall=errors(predicted, measured),
        regimes=tuple(errors(predicted[mine], measured[mine]) for mine in regimes),
        confusion=_confusion(predicted <= found.target_s, ~late),
        undisturbed=errors(predicted[~disturbed], measured[~disturbed]),
        disturbed=errors(predicted[disturbed], measured[disturbed]),
        late_undisturbed=_share(late[~disturbed]),
        late_disturbed=_share(late[disturbed]),
    )


def _share(marked: Bools) -> float:
    return float(marked.mean()) if len(marked) else float("nan")


def errors(predicted: Floats, measured: Floats) -> EstimatorErrors:
    """Errors of n predictions of positive measured values, both of shape (n,)."""
    if not len(predicted):
        nothing = float("nan")
        return EstimatorErrors(0, *[nothing] * 7)
    gap = predicted - measured
    ape = np.abs(gap) / measured
    median, p90 = np.percentile(ape, [50, 90])
    return EstimatorErrors(
        n=len(predicted),
        mape=float(ape.mean()),
        median_ape=float(median),
        p90_ape=float(p90),
        bias_s=float(gap.mean()),
        relative_bias=float(gap.sum() / measured.sum()),
        mean_absolute_s=float(np.abs(gap).mean()),
        spearman=_spearman(predicted, measured),
    )


def _spearman(a: Floats, b: Floats) -> float:
    if len(a) < 2:
        return float("nan")
    ranks = rankdata(a), rankdata(b)
    if any(rank.std() == 0 for rank in ranks):
        return float("nan")
    return float(np.corrcoef(*ranks)[0, 1])


def _confusion(predicted: Bools, came: Bools) -> Confusion:
    return Confusion(
        early_early=int((predicted & came).sum()),
        early_late=int((predicted & ~came).sum()),
        late_early=int((~predicted & came).sum()),
        late_late=int((~predicted & ~came).sum()),
    )
