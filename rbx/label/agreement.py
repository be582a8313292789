"""Whether two judges agree: on single answers, and on which model is better."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import kendalltau, rankdata

from rbx.errors import DatasetError

Floats = NDArray[np.float64]

RESAMPLES = 10_000
FEWEST_PAIRS = 3
SAME = 1e-9  # scores nearer than this are one score
UNDEFINED_SHARE = 0.01  # of resamples in which a correlation is not defined, above which there is no interval


@dataclass(frozen=True)
class Estimate:
    """A figure, or None with the reason why it can't be estimated."""

    value: float | None
    reason: str | None = None


@dataclass(frozen=True)
class Span:
    """A 95 % percentile interval, or None with the reason why there is none."""

    low: float | None
    high: float | None
    reason: str | None = None


@dataclass(frozen=True)
class System:
    """A model's mean scores by both judges, over the prompts on which both scored every model."""

    model: str
    first: float
    second: float


@dataclass(frozen=True)
class Agreement:
    """Two label columns of one grid.

    ``pairs`` are prompts times models, ``n`` those that both scored. ``same_share`` is the share of equal
    scores, ``mean_difference`` the second's mean less the first's; both over the ``n``. ``systems`` and
    what follows it rest on ``complete_prompts``; ``best_agrees`` says whether the same models have the
    highest mean.
    """

    pairs: int
    n: int
    only_first: int
    only_second: int
    neither: int
    pearson: Estimate
    pearson_span: Span
    spearman: Estimate
    same_share: Estimate
    mean_difference: Estimate
    complete_prompts: int
    systems: tuple[System, ...]
    kendall: Estimate
    best_agrees: bool | None

    def document(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)


def compare_judges(
    models: Sequence[str], first: Floats, second: Floats, *, seed: int = 0, resamples: int = RESAMPLES
) -> Agreement:
    """Compare two columns of scores, both of shape (P, M) with NaN where a score is missing.

    The interval of Pearson's r comes from resampling prompts with all their answers. No figure is ever
    NaN. Raises ``DatasetError`` where the shapes differ.
    """
    if first.shape != second.shape or first.ndim != 2 or first.shape[1] != len(models):
        raise DatasetError(f"columns of shapes {first.shape} and {second.shape} for {len(models)} models")
    has_first, has_second = np.isfinite(first), np.isfinite(second)
    both = has_first & has_second
    a, b = first[both], second[both]
    why_not = _not_estimable(a, b)
    complete = np.flatnonzero(both.all(axis=1))
    systems = _systems(models, first[complete], second[complete])
    return Agreement(
        pairs=first.size,
        n=len(a),
        only_first=int((has_first & ~has_second).sum()),
        only_second=int((has_second & ~has_first).sum()),
        neither=int((~has_first & ~has_second).sum()),
        pearson=Estimate(None, why_not) if why_not else Estimate(_correlation(a, b)),
        pearson_span=Span(None, None, why_not) if why_not else _pearson_span(first, second, seed, resamples),
        spearman=Estimate(None, why_not) if why_not else Estimate(_correlation(rankdata(a), rankdata(b))),
        same_share=_mean(np.abs(a - b) <= SAME),
        mean_difference=_mean(b - a),
        complete_prompts=len(complete),
        systems=systems,
        kendall=_kendall([each.first for each in systems], [each.second for each in systems]),
        best_agrees=_same_best(systems) if systems else None,
    )


def _not_estimable(a: Floats, b: Floats) -> str | None:
    if len(a) < FEWEST_PAIRS:
        return f"{len(a)} answers are scored by both, and {FEWEST_PAIRS} are needed"
    if np.ptp(a) <= SAME or np.ptp(b) <= SAME:
        return "a judge gives every answer the same score"
    return None


def _mean(values: NDArray[Any]) -> Estimate:
    if len(values) == 0:
        return Estimate(None, "no answer is scored by both")
    return Estimate(float(values.mean()))


def _correlation(a: Floats, b: Floats) -> float:
    return float(np.clip(np.corrcoef(a, b)[0, 1], -1.0, 1.0))


def _pearson_span(first: Floats, second: Floats, seed: int, resamples: int) -> Span:
    both = np.isfinite(first) & np.isfinite(second)
    kept = both.any(axis=1)
    if (prompts := int(kept.sum())) < FEWEST_PAIRS:
        return Span(None, None, f"{prompts} prompts are scored by both, and {FEWEST_PAIRS} are needed")
    # Centred, so that the sums of squares below lose no digits.
    a = np.where(both, first - first[both].mean(), 0.0)[kept]
    b = np.where(both, second - second[both].mean(), 0.0)[kept]
    terms = (both[kept].astype(np.float64), a, b, a * a, b * b, a * b)
    sums = np.stack([each.sum(axis=1) for each in terms], axis=1)  # (P, 6)
    drawn = _resampled(sums, resamples, np.random.default_rng(seed))
    n, sum_a, sum_b, sum_aa, sum_bb, sum_ab = drawn.T
    spread_a, spread_b = sum_aa - sum_a**2 / n, sum_bb - sum_b**2 / n
    defined = (spread_a > SAME**2) & (spread_b > SAME**2)
    if np.mean(~defined) > UNDEFINED_SHARE:
        return Span(None, None, "many resamples hold one score only")
    r = (sum_ab - sum_a * sum_b / n)[defined] / np.sqrt((spread_a * spread_b)[defined])
    low, high = np.clip(np.percentile(r, [2.5, 97.5]), -1.0, 1.0)
    return Span(float(low), float(high))


def _resampled(sums: Floats, resamples: int, rng: np.random.Generator) -> Floats:
    """Sums of ``resamples`` draws of as many prompts as there are, shape (resamples, 6)."""
    prompts = len(sums)
    found = np.empty((resamples, sums.shape[1]))
    for row in range(resamples):  # one at a time: the counts of one draw stay in the processor's cache
        found[row] = np.bincount(rng.integers(0, prompts, prompts, np.int32), minlength=prompts) @ sums
    return found


def _systems(models: Sequence[str], first: Floats, second: Floats) -> tuple[System, ...]:
    if len(first) == 0:
        return ()
    means = zip(models, first.mean(axis=0).tolist(), second.mean(axis=0).tolist(), strict=True)
    return tuple(System(*each) for each in means)


def _kendall(first: Sequence[float], second: Sequence[float]) -> Estimate:
    if not first:
        return Estimate(None, "no prompt has scores by both for every model")
    if len(first) < 2:
        return Estimate(None, "one model has no rank")
    if np.ptp(first) <= SAME or np.ptp(second) <= SAME:
        return Estimate(None, "a judge gives every model the same mean")
    # Means that differ by rounding alone are a tie.
    return Estimate(float(kendalltau(np.round(first, 9), np.round(second, 9)).statistic))


def _same_best(systems: Sequence[System]) -> bool:
    top_first = max(each.first for each in systems) - SAME
    top_second = max(each.second for each in systems) - SAME
    return all((each.first >= top_first) == (each.second >= top_second) for each in systems)
