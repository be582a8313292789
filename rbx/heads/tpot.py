"""The TPOT heads: seconds per output token of each instance from the state it shows.

One XGBoost ensemble a tier (arXiv 2606.17949, section 4.2), trained by ``rbx.heads.tpot_fit`` and
evaluated here by a compiled walk. Beside them stands the static prior: a constant per tier.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rbx.engine.telemetry import TPOT_FEATURES
from rbx.errors import BundleError
from rbx.heads.trees import PackedTrees, predict_rows

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class StaticPrior:
    """Seconds per output token of each tier whatever its load, shape (tiers,).

    ``declared_s`` stands in the pool file; ``low_load_s`` is the median of the rate sweep at up to a
    tenth of capacity, to judge the declared figure by.
    """

    declared_s: Floats
    low_load_s: Floats


@dataclass(frozen=True)
class TpotHeads:
    """All tiers' heads; ``tiers`` gives the order of the tier axis, ``trees`` serves other kernels.

    An answer never falls below the fastest TPOT that the tier showed in its rate sweep: boosted trees
    may undershoot, and a zero or negative time per token would win every comparison.
    """

    tiers: tuple[str, ...]
    trees: PackedTrees

    def predict(self, features: Floats, tier_of_instance: Ints) -> Floats:
        """Seconds per output token of each instance, shape (instances,).

        ``features`` (instances, F) in the order of ``TPOT_FEATURES``; raises ``BundleError`` if shapes
        do not fit, a feature is not finite, or a tier index lies outside the bundle.
        """
        if features.shape != (len(tier_of_instance), len(TPOT_FEATURES)):
            raise BundleError(
                f"TPOT features have shape {features.shape}, expected "
                f"{(len(tier_of_instance), len(TPOT_FEATURES))}"
            )
        if not np.isfinite(features).all():
            row, column = np.argwhere(~np.isfinite(features))[0]
            raise BundleError(f"instance {row}: {TPOT_FEATURES[column]} is not finite")
        if len(tier_of_instance) and not 0 <= tier_of_instance.min() <= tier_of_instance.max() < len(
            self.tiers
        ):
            raise BundleError(f"a tier index lies outside the {len(self.tiers)} tiers of the bundle")
        predicted: Floats = predict_rows(self.trees, features, tier_of_instance)
        return predicted


def slot_is_free(features: Floats, max_num_seqs: int) -> NDArray[np.bool_]:
    """Whether a new request would decode at once: fewer than ``max_num_seqs`` run and none waits."""
    running, waiting = (features[:, TPOT_FEATURES.index(name)] for name in ("running", "waiting"))
    free: NDArray[np.bool_] = (running < max_num_seqs) & (waiting == 0)
    return free


def latency_s(features: Floats, tpot_s: Floats, length_tokens: Floats, max_num_seqs: int) -> Floats:
    """T of RouteBalance, rows of one tier: tpot·L while a slot is free, else tpot·(d/b + L).

    b is the running sequences (at least 1), d the pending decode tokens.
    """
    pending = features[:, TPOT_FEATURES.index("pending_decode_tokens")]
    queued = pending / np.maximum(features[:, TPOT_FEATURES.index("running")], 1)
    free = slot_is_free(features, max_num_seqs)
    whole: Floats = tpot_s * (np.where(free, 0.0, queued) + length_tokens)
    return whole
