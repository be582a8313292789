"""Fit one TPOT ensemble a tier on its rate sweep, and measure it on held-out blocks of time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import xgboost
from numpy.typing import NDArray

from rbx.config.pool import Tier
from rbx.engine.telemetry import TPOT_FEATURES
from rbx.errors import BundleError
from rbx.heads.rate_sweep import LOW_LOAD, TierObservations
from rbx.heads.report import TierReport
from rbx.heads.tpot import StaticPrior, TpotHeads, latency_s, slot_is_free
from rbx.heads.trees import pack, predict_rows

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

ROUNDS = 150
# One thread: the histogram method then sums in one order, and a bundle's bytes depend on nothing else.
# More running sequences never make a token faster; the constraint keeps noise from saying otherwise
# when dead reckoning moves a state to where the sweep saw little.
PARAMETERS = {
    "objective": "reg:squarederror",
    "tree_method": "hist",
    "max_depth": 5,
    "eta": 0.1,
    "min_child_weight": 5,
    "monotone_constraints": tuple(int(name == "running") for name in TPOT_FEATURES),
    "nthread": 1,
    "device": "cpu",
    "seed": 0,
}


@dataclass(frozen=True)
class FittedTpot:
    """Heads, prior, each tier's errors, and the boosters in XGBoost's own binary format (UBJ)."""

    heads: TpotHeads
    prior: StaticPrior
    reports: tuple[TierReport, ...]
    boosters: tuple[bytes, ...]


def fit_tpot(tiers: tuple[Tier, ...], observed: tuple[TierObservations, ...]) -> FittedTpot:
    """Fit and measure; raises ``BundleError`` for a tier whose sweep left nothing to learn from."""
    boosters = [_fit(observations) for observations in observed]
    floors = np.array([observations.tpot_s.min() for observations in observed])
    heads = TpotHeads(
        tuple(tier.name for tier in tiers), pack([bytes(b.save_raw("json")) for b in boosters], floors)
    )
    low = [observations.tpot_s[observations.load <= LOW_LOAD] for observations in observed]
    prior = StaticPrior(
        np.array([tier.tpot_prior_s for tier in tiers]), np.array([np.median(values) for values in low])
    )
    reports = tuple(
        _report(tier, index, seen, heads, len(low[index]))
        for index, (tier, seen) in enumerate(zip(tiers, observed, strict=True))
    )
    return FittedTpot(heads, prior, reports, tuple(bytes(b.save_raw("ubj")) for b in boosters))


def _fit(seen: TierObservations) -> xgboost.Booster:
    rows = seen.role == 0
    if rows.sum() < 100 or (seen.role == 1).sum() < 20:
        raise BundleError(
            f"tier {seen.tier}: the rate sweep left {int(rows.sum())} requests to train on and "
            f"{int((seen.role == 1).sum())} to test on, too few: its requests are too long for the sweep, or "
            "most of its answers too short to have a time per token"
        )
    data = xgboost.DMatrix(
        seen.features[rows].astype(np.float32), seen.tpot_s[rows], feature_names=list(TPOT_FEATURES)
    )
    return xgboost.train(PARAMETERS, data, ROUNDS)


def _report(tier: Tier, index: int, seen: TierObservations, heads: TpotHeads, n_low: int) -> TierReport:
    rows = seen.role == 1
    features, actual_s, e2e_s = seen.features[rows], seen.tpot_s[rows], seen.e2e_s[rows]
    predicted_s = predict_rows(heads.trees, features, np.full(len(features), index, dtype=np.int64))
    prior_s = np.full(len(features), tier.tpot_prior_s)
    seqs = tier.limits.max_num_seqs
    free = slot_is_free(features, seqs)

    def e2e_errors(tpot_s: Floats, length_tokens: Ints) -> Floats:
        t = latency_s(features, tpot_s, length_tokens.astype(np.float64), seqs)
        errors: Floats = np.abs(t - e2e_s) / e2e_s
        return errors

    head, prior = (e2e_errors(tpot_s, seen.output_tokens[rows]) for tpot_s in (predicted_s, prior_s))
    return TierReport(
        tier=tier.name,
        n_train=int((seen.role == 0).sum()),
        n_test=int(rows.sum()),
        capacity_per_s=seen.capacity_per_s,
        tpot_mae_ms=float(np.mean(np.abs(predicted_s - actual_s)) * 1e3),
        tpot_mape=float(np.mean(np.abs(predicted_s - actual_s) / actual_s)),
        prior_tpot_mae_ms=float(np.mean(np.abs(prior_s - actual_s)) * 1e3),
        e2e_mape=float(head.mean()),
        e2e_mape_predicted=float(e2e_errors(predicted_s, seen.predicted_tokens[rows]).mean()),
        prior_e2e_mape=float(prior.mean()),
        n_free=int(free.sum()),
        e2e_mape_free=float(head[free].mean()) if free.any() else None,
        prior_e2e_mape_free=float(prior[free].mean()) if free.any() else None,
        low_load_tpot_ms=float(np.median(seen.tpot_s[seen.load <= LOW_LOAD]) * 1e3),
        n_low_load=n_low,
    )
