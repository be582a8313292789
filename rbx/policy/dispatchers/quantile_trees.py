"""A small gradient-boosted model of one quantile, packed for fast answers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rbx.heads.trees import PackedTrees, pack

Floats = NDArray[np.float64]


def fit_quantile(features: Floats, values: Floats, quantile: float, trees: int, depth: int) -> PackedTrees:
    """Features (N, F) to non-negative values (N,); the same rows give the same trees."""
    import xgboost  # only the dispatcher that learns pays for loading it

    data = xgboost.DMatrix(features, label=values, nthread=1)
    parameters = {
        "objective": "reg:quantileerror",
        "quantile_alpha": quantile,
        "tree_method": "hist",
        "max_depth": depth,
        "eta": 0.15,
        "min_child_weight": 5,
        "nthread": 1,
        "device": "cpu",
        "seed": 0,
    }
    booster = xgboost.train(parameters, data, trees)
    return pack([bytes(booster.save_raw("json"))], np.zeros(1))
