"""How good quality and length predictions are on prompts that the heads never saw.

Every figure carries its n; what can't be estimated (a constant, fewer than three labels) is None.
Prompts that lack a label are left out of the figures that need it, never counted as zero.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from rbx.heads.predictions import LENGTH_BUCKET_TOKENS, N_LENGTH_BUCKETS, Predictions

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

RESAMPLES = 10_000


@dataclass(frozen=True)
class ModelReport:
    """One model: quality in score units and length in tokens, each on its labelled test prompts."""

    model: str
    n_quality: int
    mean_quality: float | None
    quality_mae: float | None
    quality_spearman: float | None
    quality_auc: float | None
    n_length: int
    mean_length_tokens: float | None
    length_mae_tokens: float | None
    log_length_r2: float | None
    length_calibration_error: float | None


@dataclass(frozen=True)
class Interval:
    """A mean over n prompts with its 95 % percentile bootstrap interval (None below two prompts)."""

    mean: float
    low: float | None
    high: float | None
    n: int


@dataclass(frozen=True)
class RoutingReport:
    """What an argmax over predicted quality would give, on the prompts labelled for every model.

    ``picks_best`` counts a tie for the best score as a hit (random: the mean share of tied models);
    ``picks_best_strict`` looks only at the ``n_strict`` prompts with one best model. ``best_single`` is
    the model with the highest mean on the training prompts.
    """

    n: int
    picks_best: float | None
    picks_best_random: float | None
    n_strict: int
    picks_best_strict: float | None
    picks_best_strict_random: float
    routed: Interval | None
    best_single_model: str
    best_single: float | None
    random: float | None
    oracle: float | None
    routed_minus_best_single: Interval | None


def report_models(predicted: Predictions, score: Floats, length: Floats) -> tuple[ModelReport, ...]:
    """One report a model; ``score`` and ``length`` (P, M) are the labels of the predicted prompts."""
    return tuple(
        _report_model(name, predicted, column, score[:, column], length[:, column])
        for column, name in enumerate(predicted.models)
    )


def _report_model(
    name: str, predicted: Predictions, column: int, score: Floats, length: Floats
) -> ModelReport:
    scored, told = np.flatnonzero(~np.isnan(score)), np.flatnonzero(~np.isnan(length))
    quality = predicted.quality[scored, column]
    tokens = predicted.length_tokens[told, column]
    return ModelReport(
        model=name,
        n_quality=len(scored),
        mean_quality=_mean(score[scored]),
        quality_mae=_mean(np.abs(quality - score[scored])),
        quality_spearman=spearman(quality, score[scored]),
        quality_auc=auc(quality, score[scored]),
        n_length=len(told),
        mean_length_tokens=_mean(length[told]),
        length_mae_tokens=_mean(np.abs(tokens - length[told])),
        log_length_r2=r2(np.log(tokens), np.log(np.maximum(length[told], 1.0))),
        length_calibration_error=calibration_error(predicted.length_histogram[told, column], length[told]),
    )


def report_routing(
    predicted: Predictions, score: Floats, train_mean: Floats, rng: np.random.Generator
) -> RoutingReport:
    """Route each fully labelled prompt to the model of the highest predicted quality.

    ``score`` (P, M) holds the test labels, ``train_mean`` (M,) the models' means on the training prompts.
    """
    rows = np.flatnonzero(~np.isnan(score).any(axis=1))
    truth = score[rows]
    single = int(np.argmax(train_mean))
    best = truth == truth.max(axis=1, keepdims=True) if len(rows) else np.zeros_like(truth, dtype=bool)
    routed = routed_quality(predicted, score)
    hit = best[np.arange(len(rows)), predicted.quality[rows].argmax(axis=1)]
    unique = best.sum(axis=1) == 1
    return RoutingReport(
        n=len(rows),
        picks_best=_mean(hit.astype(np.float64)),
        picks_best_random=_mean(best.mean(axis=1)),
        n_strict=int(unique.sum()),
        picks_best_strict=_mean(hit[unique].astype(np.float64)),
        picks_best_strict_random=1.0 / truth.shape[1],
        routed=bootstrap_mean(routed, rng),
        best_single_model=predicted.models[single],
        best_single=_mean(truth[:, single]),
        random=_mean(truth.mean(axis=1)),
        oracle=_mean(truth.max(axis=1)) if len(rows) else None,
        routed_minus_best_single=bootstrap_mean(routed - truth[:, single], rng),
    )


def routed_quality(predicted: Predictions, score: Floats) -> Floats:
    """True score of the argmax pick for each fully labelled prompt, shape (n,)."""
    rows = np.flatnonzero(~np.isnan(score).any(axis=1))
    picked: Floats = score[rows, predicted.quality[rows].argmax(axis=1)]
    return picked


def bootstrap_mean(values: Floats, rng: np.random.Generator) -> Interval | None:
    """Mean with a 95 % percentile interval over ``RESAMPLES`` resamples of the prompts."""
    n = len(values)
    if n == 0:
        return None
    if n < 2:
        return Interval(float(values[0]), None, None, n)
    means = np.concatenate(
        [values[rng.integers(0, n, (200, n))].mean(axis=1) for _ in range(RESAMPLES // 200)]
    )
    low, high = np.percentile(means, [2.5, 97.5])
    return Interval(float(values.mean()), float(low), float(high), n)


def spearman(predicted: Floats, actual: Floats) -> float | None:
    """Rank correlation, ties given their mean rank."""
    if len(actual) < 3 or np.ptp(predicted) == 0 or np.ptp(actual) == 0:
        return None
    return float(np.corrcoef(rankdata(predicted), rankdata(actual))[0, 1])


def auc(predicted: Floats, actual: Floats) -> float | None:
    """Chance that a success is ranked above a failure; only where every score is 0 or 1."""
    if not np.isin(actual, (0.0, 1.0)).all():
        return None
    positives = int(actual.sum())
    negatives = len(actual) - positives
    if positives == 0 or negatives == 0:
        return None
    rank_sum = float(rankdata(predicted)[actual == 1.0].sum())
    return (rank_sum - positives * (positives + 1) / 2) / (positives * negatives)


def r2(predicted: Floats, actual: Floats) -> float | None:
    """Share of variance explained: 1 − squared error over the spread around the mean."""
    if len(actual) < 3 or np.ptp(actual) == 0:
        return None
    return float(1.0 - np.sum((predicted - actual) ** 2) / np.sum((actual - actual.mean()) ** 2))


def calibration_error(histogram: Floats, length: Floats) -> float | None:
    """Expected calibration error of P(length < 64·j), j = 1…15, in ten bins of probability.

    This is the probability that a budget filter asks for: within each bin, how far the mean predicted
    probability lies from the frequency, weighted by the bin's size.
    """
    if len(length) == 0:
        return None
    edges = LENGTH_BUCKET_TOKENS * np.arange(1, N_LENGTH_BUCKETS)
    probability = np.clip(np.cumsum(histogram, axis=1)[:, :-1], 0.0, 1.0).ravel()
    happened = (length[:, None] < edges).astype(np.float64).ravel()
    bins = np.minimum((probability * 10).astype(np.int64), 9)
    sizes = np.bincount(bins, minlength=10)
    gaps = np.bincount(bins, probability - happened, minlength=10)
    return float(np.abs(gaps).sum() / sizes.sum())


def _mean(values: Floats) -> float | None:
    return float(values.mean()) if len(values) else None
