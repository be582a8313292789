"""What a campaign against a live server has found, and its tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import spearmanr

from rbx.heads.step_time.report import StepTimeReport
from tests.vllm.live_estimators import Calibration

Floats = NDArray[np.float64]

_HEADINGS = ("MAPE", "median", "p90", "bias", "abs ms", "rank")


@dataclass(frozen=True)
class Errors:
    """How far one estimator was off on one band; shares of the measured TTFT, seconds where named so."""

    n: int
    mape: float
    median_ape: float
    p90_ape: float
    bias: float
    mean_absolute_s: float
    spearman: float

    @classmethod
    def of(cls, predicted_s: Floats, measured: Floats) -> Errors:
        """All figures of predictions against measurements, both (n,)."""
        ape = np.abs(predicted_s / measured - 1.0)
        rank = spearmanr(predicted_s, measured).statistic
        return cls(
            len(measured),
            float(ape.mean()),
            float(np.median(ape)),
            float(np.quantile(ape, 0.9)),
            float((predicted_s / measured - 1.0).mean()),
            float(np.abs(predicted_s - measured).mean()),
            float(rank),
        )


@dataclass(frozen=True)
class Band:
    """One load: what was measured, and errors by estimator; ``whole`` with the time outside the engine."""

    share: float
    per_s: float
    measured: Floats
    bare: Mapping[str, Errors]
    whole: Mapping[str, Errors]
    load_average: float


@dataclass(frozen=True)
class Campaign:
    """Everything of one campaign that its tables need."""

    fit: StepTimeReport
    calibration: Calibration
    capacity_per_s: float
    outside: tuple[float, float]  # seconds, and seconds per prompt token
    bands: tuple[Band, ...]


def show(campaign: Campaign) -> None:
    """Print the tables."""
    fit, calibration = campaign.fit.model(campaign.fit.recommended), campaign.calibration
    print(f"Step times: model {fit.feature_set}, {100 * fit.mape:.1f} % MAPE on steps held out")
    print(
        f"Capacity {campaign.capacity_per_s:.2f} requests/s of {calibration.mean.prompt_tokens:.0f}", end=" "
    )
    print(f"+ {calibration.mean.output_tokens:.0f} tokens;", end=" ")
    print(f"{calibration.prefill_tokens_per_s:,.0f} prompt tokens/s")
    fixed_s, per_token_s = campaign.outside
    print(f"Outside the engine: {1000 * fixed_s:.1f} ms + {1e6 * per_token_s:.0f} µs per prompt token")
    for band in campaign.bands:
        _show_band(band)


def _show_band(band: Band) -> None:
    median_ms, p90_ms = 1000 * np.quantile(band.measured, [0.5, 0.9])
    print(
        f"\nAt {band.share:g} of the capacity, {band.per_s:.2f} requests/s: n = {len(band.measured)},",
        end=" ",
    )
    print(f"TTFT median {median_ms:.0f} ms, p90 {p90_ms:.0f} ms;", end=" ")
    print(f"load average at its start {band.load_average:.1f}")
    print(f"{'':22}" + "".join(f"{heading:>8}" for heading in _HEADINGS) + "   engine alone: MAPE, bias")
    for name, errors in band.whole.items():
        bare = band.bare[name]
        shares = (errors.mape, errors.median_ape, errors.p90_ape)
        print(
            f"{name:22}"
            + "".join(f"{100 * share:7.1f}%" for share in shares)
            + f"{100 * errors.bias:+7.1f}%{1000 * errors.mean_absolute_s:8.0f}{errors.spearman:8.3f}"
            + f"   {100 * bare.mape:6.1f}% {100 * bare.bias:+6.1f}%"
        )
