"""Encoders side by side on one split."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from rbx.heads.evaluation import bootstrap_mean, report_models, routed_quality
from rbx.heads.predictions import Predictions
from rbx.heads.report import EncoderReport

Floats = NDArray[np.float64]


def report_encoders(
    predictions: Mapping[str, Predictions],
    chosen: str,
    score: Floats,
    length: Floats,
    seed: int,
) -> tuple[EncoderReport, ...]:
    """One report an encoder, the chosen one first; all resample the same prompts."""
    reference = routed_quality(predictions[chosen], score)
    reports = []
    for name, predicted in predictions.items():
        models = report_models(predicted, score, length)
        routed = routed_quality(predicted, score)
        difference = bootstrap_mean(routed - reference, np.random.default_rng(seed))
        reports.append(
            EncoderReport(
                name=name,
                spearman=_mean_known([model.quality_spearman for model in models]),
                auc=_mean_known([model.quality_auc for model in models]),
                log_length_r2=_mean_known([model.log_length_r2 for model in models]),
                routed=bootstrap_mean(routed, np.random.default_rng(seed)),
                routed_minus_chosen=None if name == chosen else difference,
            )
        )
    return tuple(reports)


def _mean_known(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None
