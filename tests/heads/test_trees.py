"""The compiled walk against XGBoost's own answers."""

from __future__ import annotations

import json

import numpy as np
import pytest
import xgboost
from hypothesis import given, settings
from hypothesis import strategies as st

from rbx.errors import BundleError
from rbx.heads.trees import pack, predict_rows


def booster(rng: np.random.Generator, depth: int, rounds: int) -> xgboost.Booster:
    features = np.floor(rng.random((400, 4)) * 30)  # repeated values: splits fall on data points
    target = 0.01 + 0.001 * features[:, 0] + 0.01 * rng.random(400)
    data = xgboost.DMatrix(features, target)
    return xgboost.train({"max_depth": depth, "nthread": 1, "tree_method": "hist"}, data, rounds)


@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 1000), depth=st.integers(1, 7), rounds=st.integers(1, 20))
def test_answers_equal_those_of_xgboost(seed: int, depth: int, rounds: int) -> None:
    rng = np.random.default_rng(seed)
    boosters = [booster(rng, depth, rounds) for _ in range(3)]
    trees = pack([bytes(b.save_raw("json")) for b in boosters], np.full(3, -np.inf))
    rows = np.floor(rng.random((60, 4)) * 40) - 5
    tiers = rng.integers(0, 3, 60)
    expected = np.array(
        [
            boosters[tier].predict(xgboost.DMatrix(row[None, :]))[0]
            for tier, row in zip(tiers, rows, strict=True)
        ]
    )
    np.testing.assert_allclose(predict_rows(trees, rows, tiers), expected, atol=1e-6)
    assert np.ptp(expected) > 0


def test_answers_never_fall_below_the_floor() -> None:
    trees = pack([bytes(booster(np.random.default_rng(0), 3, 5).save_raw("json"))], np.array([0.02]))
    answers = predict_rows(trees, np.random.default_rng(1).random((50, 4)) * 30, np.zeros(50, np.int64))
    assert answers.min() == 0.02
    assert answers.max() > 0.02


def test_a_stump_with_no_split_answers_its_intercept() -> None:
    data = xgboost.DMatrix(np.ones((50, 2)), np.full(50, 0.03))
    model = xgboost.train({"max_depth": 3, "nthread": 1}, data, 2)
    trees = pack([bytes(model.save_raw("json"))], np.array([0.0]))
    assert predict_rows(trees, np.zeros((1, 2)), np.zeros(1, np.int64))[0] == pytest.approx(0.03, abs=1e-6)


def test_other_kinds_of_model_are_refused() -> None:
    model = json.loads(booster(np.random.default_rng(0), 3, 2).save_raw("json"))
    model["learner"]["gradient_booster"]["name"] = "dart"
    with pytest.raises(BundleError, match="not a gbtree"):
        pack([json.dumps(model).encode()], np.zeros(1))
