from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from rbx.report.paired import Resampling
from rbx.report.routers.concordance import _concordances, _sorted, concordance, concordance_rows
from rbx.report.routers.means import drawn_prompts
from rbx.report.routers.population import Material


def by_pairs(score: list[float], label: list[float]) -> float:
    """The definition, pair by pair."""
    points, pairs = 0.0, 0
    for (s0, y0), (s1, y1) in itertools.combinations(zip(score, label, strict=True), 2):
        if y0 == y1:
            continue
        pairs += 1
        points += 0.5 if s0 == s1 else float((s0 > s1) == (y0 > y1))
    return points / pairs if pairs else np.nan


@settings(max_examples=200)
@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 4)), min_size=1, max_size=30))
def test_it_is_the_share_of_pairs_in_order(rows: list[tuple[int, int]]) -> None:
    score = [float(s) for s, _ in rows]
    label = [y / 4 for _, y in rows]
    expected = by_pairs(score, label)
    assert concordance(np.array(score), np.array(label)) == pytest.approx(expected, nan_ok=True)


def test_for_right_and_wrong_it_is_the_area_under_the_roc_curve() -> None:
    rng = np.random.default_rng(1)
    label = (rng.random(400) < 0.7).astype(np.float64)
    score = np.round(label * 0.4 + rng.random(400), 2)  # with ties
    assert concordance(score, label) == pytest.approx(roc_auc_score(label, score), abs=1e-12)


def test_a_resample_counts_prompts_as_often_as_it_drew_them() -> None:
    rng = np.random.default_rng(2)
    label = rng.integers(0, 5, 80) / 4
    score = np.round(label + rng.normal(size=80), 1)
    counts = next(drawn_prompts(80, Resampling(n_resamples=20, seed=4)))
    found = _concordances(counts, *_sorted(score, label))
    for row, drawn in zip(found, counts, strict=True):
        repeated = np.repeat(np.arange(80), drawn)
        assert row == pytest.approx(by_pairs(score[repeated].tolist(), label[repeated].tolist()), abs=1e-12)


def test_rows_agree_with_sklearn_by_model_and_in_the_mean(material: Material) -> None:
    people = material.population
    score = material.bundle.routers["linear"].score(people.asked)
    (row,) = concordance_rows({"linear": score}, people, Resampling(n_resamples=200))
    expected = [roc_auc_score(people.score[:, k], score[:, k]) for k in range(3)]
    assert row.models == 3
    assert [found.value for found in row.by_model if found] == pytest.approx(expected, abs=1e-12)
    assert row.macro.value == pytest.approx(np.mean(expected), abs=1e-12)
    assert row.macro.low < row.macro.value < row.macro.high
    assert row.tied.value == 0.0


def test_ties_for_the_highest_score_are_counted(material: Material) -> None:
    people = material.population
    score = np.random.default_rng(1).integers(0, 3, people.score.shape).astype(np.float64)
    (row,) = concordance_rows({"any": score}, people, Resampling(n_resamples=100))
    by_hand = [sorted(scores)[-1] == sorted(scores)[-2] for scores in score.tolist()]
    assert row.tied.value == pytest.approx(np.mean(by_hand))
    assert 0.0 < row.tied.low < row.tied.value


def test_a_model_whose_labels_are_all_the_same_has_no_value_and_is_left_out_of_the_mean(
    material: Material,
) -> None:
    from dataclasses import replace

    people = material.population
    labels = people.score.copy()
    labels[:, 1] = 1.0
    changed = replace(people, score=labels)
    score = np.random.default_rng(0).random(labels.shape)
    (row,) = concordance_rows({"any": score}, changed, Resampling(n_resamples=100))
    assert row.by_model[1] is None
    assert row.models == 2
    assert row.macro.value == pytest.approx(
        np.mean([roc_auc_score(labels[:, k], score[:, k]) for k in (0, 2)]), abs=1e-12
    )
