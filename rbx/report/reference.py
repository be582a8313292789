"""Reference lines: what quality the labels allow without, or with perfect, knowledge of the prompt."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rbx.report.interval import Interval, not_estimable
from rbx.report.paired import ORACLE, PairedPoints, from_replicates, why_unpaired
from rbx.report.point import Point


@dataclass(frozen=True)
class References:
    """Over the requests of one rate.

    ``oracle``: the best score of each prompt. ``random``: each model equally often.
    ``best_single``: the model of the highest mean (chosen on these very prompts). ``coverage``: the
    share of (request, model) pairs that have a label.
    """

    oracle: Interval
    random: Interval
    best_single: Interval
    best_single_model: str
    model_means: dict[str, Interval]
    coverage: float


@dataclass(frozen=True)
class BlindMix:
    """Expected quality of a cell's own model shares given out blind to the prompt, and its gain on that."""

    quality: Interval
    gain: Interval


def references(paired: PairedPoints, rate_per_s: float) -> References:
    """The reference lines of a rate."""
    models = paired.labels.models
    means = {model: paired.model_mean(rate_per_s, model) for model in models}
    known = [model for model in models if means[model].value == means[model].value]
    best = max(known, key=lambda model: means[model].value, default="")
    asked = paired.reference_point(rate_per_s).prompts
    return References(
        oracle=paired.model_mean(rate_per_s, ORACLE),
        random=_blend(paired, rate_per_s, {model: 1 / len(known) for model in known}),
        best_single=means[best] if best else not_estimable(float("nan"), "no label"),
        best_single_model=best,
        model_means=means,
        coverage=float(np.isfinite(paired.labels.score[asked]).mean()),
    )


def blind_mix(paired: PairedPoints, point: Point) -> BlindMix:
    """Hold the cell's own shares over scored requests, but forget which prompt got which model."""
    models = np.concatenate([c.requests.model[c.requests.scored] for c in point.cells])
    if not len(models):
        gone = not_estimable(float("nan"), "no scored request")
        return BlindMix(gone, gone)
    names, counts = np.unique(models, return_counts=True)
    shares = {str(name): float(n / len(models)) for name, n in zip(names, counts, strict=True)}
    unknown = sorted(set(shares) - set(paired.labels.models))
    if unknown:
        gone = not_estimable(float("nan"), f"no labels of {', '.join(unknown)}")
        return BlindMix(gone, gone)
    value, replicates = paired.blend(point.rate_per_s, shares)
    n_prompts = paired.known_prompts(point, "quality")
    quality = from_replicates(value, replicates, n_prompts)
    lead = point.metrics.quality_mean - value
    if unpaired := why_unpaired(point, paired.reference_point(point.rate_per_s)):
        return BlindMix(quality, not_estimable(lead, unpaired))
    gap = paired.quality_replicates(point) - replicates
    return BlindMix(quality, from_replicates(lead, gap, n_prompts, scale=value))


def _blend(paired: PairedPoints, rate_per_s: float, shares: dict[str, float]) -> Interval:
    if not shares:
        return not_estimable(float("nan"), "no label")
    value, replicates = paired.blend(rate_per_s, shares)
    return from_replicates(value, replicates, len(paired.universe))
