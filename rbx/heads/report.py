"""The training report: what the bundle's heads are worth, as data."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from typing import Any

from rbx.heads.evaluation import Interval, ModelReport, RoutingReport
from rbx.heads.manifest import canonical
from rbx.heads.remaining import RemainingReport


@dataclass(frozen=True)
class TierReport:
    """Errors of one tier on held-out blocks of time, each with its n.

    ``e2e_mape`` prices a request by T (see ``rbx.heads.tpot.latency_s``) at its true length,
    ``e2e_mape_free`` the ``n_free`` of them that met a free slot, ``e2e_mape_predicted`` all of them at
    the length head's length; ``prior_*`` do the same with the pool file's constant.
    """

    tier: str
    n_train: int
    n_test: int
    capacity_per_s: float
    tpot_mae_ms: float
    tpot_mape: float
    prior_tpot_mae_ms: float
    e2e_mape: float
    e2e_mape_predicted: float
    prior_e2e_mape: float
    n_free: int
    e2e_mape_free: float | None
    prior_e2e_mape_free: float | None
    low_load_tpot_ms: float
    n_low_load: int


@dataclass(frozen=True)
class EncoderReport:
    """One encoder on the same split: mean over models of each figure, and routed quality.

    ``routed_minus_chosen`` is paired by prompt against the bundle's encoder (None for itself).
    """

    name: str
    spearman: float | None
    auc: float | None
    log_length_r2: float | None
    routed: Interval | None
    routed_minus_chosen: Interval | None


@dataclass(frozen=True)
class TrainingReport:
    """All figures of one training run; holds no time of this machine, so it is the same everywhere.

    ``notes`` say what was left out, and which heads are no better than a mean.
    """

    grid: str
    synthetic: bool
    metric: str
    encoder: str
    k: int
    n_train: int
    n_test: int
    mean_input_tokens: float  # of the training prompts
    label_coverage: float
    models: tuple[ModelReport, ...]
    routing: RoutingReport
    remaining: tuple[RemainingReport, ...]
    tiers: tuple[TierReport, ...]
    encoders: tuple[EncoderReport, ...]
    notes: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """Plain data as a JSON file gives it back; figures that can't be estimated are null."""
        data: dict[str, Any] = json.loads(canonical(dataclasses.asdict(self)))
        return data
