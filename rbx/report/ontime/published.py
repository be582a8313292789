"""Figures published for BEAR (arXiv 2607.18253): other hardware, other prompts, other judge.

The two averages and the estimator's figures are those of the paper's summary, the area that of its first
version; the single cells stand in the authors' public repository. All are on real vLLM and three Qwen3
models on H100s.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

_POOL = "qwen3-h100"

OVER_LATENCY_AWARE = 0.63
OVER_BEST_BASELINE = 0.305
AREA_OVER_BEST_BASELINE = 0.33
MAPE = 0.05
PREDICTION_S = 1e-4


@dataclass(frozen=True)
class PublishedCell:
    """One policy at one rate, as published."""

    router: str
    rate_per_s: float
    on_time_utility: float
    attainment: float


CELLS = (
    PublishedCell("BEAR (SFS)", 8.0, 0.498, 0.921),
    PublishedCell("LMDeploy", 6.0, 0.382, 0.978),
    PublishedCell("LMDeploy", 7.0, 0.390, 0.972),
    PublishedCell("LMDeploy", 8.0, 0.390, 0.910),
    PublishedCell("LMDeploy", 8.3, 0.396, 0.959),
    PublishedCell("vLLM-SR", 6.0, 0.111, 0.387),
    PublishedCell("SCORE", 7.0, 0.306, 0.973),
)


def are_comparable(manifest: dict[str, Any]) -> bool:
    """Whether the sweep's pool is modelled on the one that the figures were measured on."""
    name = str((manifest.get("pool") or {}).get("name", ""))
    return name == _POOL or name.startswith(f"{_POOL}-")
