"""Agreement of two judges, against figures worked out another way."""

from __future__ import annotations

import json
import math
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray
from scipy import stats

from rbx.errors import DatasetError
from rbx.label.agreement import Agreement, Estimate, compare_judges

Floats = NDArray[np.float64]
NAN = math.nan


def columns(
    seed: int = 3, prompts: int = 300, models: int = 4, missing: float = 0.1
) -> tuple[Floats, Floats]:
    rng = np.random.default_rng(seed)
    truth = rng.normal(0.5, 0.2, (prompts, 1)) + np.arange(models) * 0.05
    pair = [np.clip(np.round(truth + rng.normal(0, 0.15, truth.shape), 1), 0, 1) for _ in range(2)]
    for column in pair:
        column[rng.random(column.shape) < missing] = NAN
    return pair[0], pair[1]


NAMES = ("a", "b", "c", "d")


def compare(first: Floats, second: Floats, **more: Any) -> Agreement:
    return compare_judges(NAMES[: first.shape[1]], first, second, **{"resamples": 200, **more})


def test_figures_are_those_of_the_pairs_that_both_scored() -> None:
    first, second = columns()
    found = compare(first, second)
    pairs = [
        (x, y)
        for x, y in zip(first.ravel().tolist(), second.ravel().tolist(), strict=True)
        if not math.isnan(x) and not math.isnan(y)
    ]
    a, b = zip(*pairs, strict=True)
    assert found.n == len(pairs)
    assert found.n + found.only_first + found.only_second + found.neither == found.pairs == 1200
    assert min(found.only_first, found.only_second, found.neither) > 0
    assert found.pearson.value == pytest.approx(stats.pearsonr(a, b).statistic)
    assert found.spearman.value == pytest.approx(stats.spearmanr(a, b).statistic)
    assert found.same_share.value == pytest.approx(
        sum(round(10 * x) == round(10 * y) for x, y in pairs) / len(pairs)
    )
    assert found.mean_difference.value == pytest.approx(sum(b) / len(b) - sum(a) / len(a))


def test_systems_are_ranked_on_prompts_that_both_scored_for_every_model() -> None:
    first, second = columns()
    found = compare(first, second)
    complete = [row for row in range(len(first)) if np.isfinite([*first[row], *second[row]]).all()]
    assert found.complete_prompts == len(complete) < 300
    for at, system in enumerate(found.systems):
        assert system.first == pytest.approx(sum(first[row, at] for row in complete) / len(complete))
        assert system.second == pytest.approx(sum(second[row, at] for row in complete) / len(complete))
    order = [
        math.copysign(1, (x.first - y.first) * (x.second - y.second))
        for x, y in combinations(found.systems, 2)
    ]
    assert found.kendall.value == pytest.approx(sum(order) / len(order))
    assert found.best_agrees
    turned = compare(first, second[:, ::-1])
    assert turned.best_agrees is False
    assert turned.kendall.value is not None
    assert turned.kendall.value < 0


def test_the_interval_is_that_of_resampled_prompts() -> None:
    first, second = columns(prompts=60)
    found = compare(first, second, resamples=2000)
    rng = np.random.default_rng(99)
    replicates = []
    for _ in range(2000):
        rows = rng.integers(0, 60, 60)
        a, b = first[rows].ravel(), second[rows].ravel()
        known = np.isfinite(a) & np.isfinite(b)
        replicates.append(np.corrcoef(a[known], b[known])[0, 1])
    assert found.pearson_span.low == pytest.approx(np.percentile(replicates, 2.5), abs=0.02)
    assert found.pearson_span.high == pytest.approx(np.percentile(replicates, 97.5), abs=0.02)
    assert compare(first, second, seed=0) == compare(first, second, seed=0)
    assert compare(first, second, seed=0).pearson_span != compare(first, second, seed=1).pearson_span


def test_answers_of_one_prompt_stay_together_in_a_resample() -> None:
    first, second = columns(prompts=100, models=1, missing=0.0)
    alone = compare(first, second, resamples=2000).pearson_span
    copied = compare(np.repeat(first, 4, axis=1), np.repeat(second, 4, axis=1), resamples=2000).pearson_span
    # Four copies of an answer tell no more than one.
    assert alone.low == pytest.approx(copied.low)
    assert alone.high == pytest.approx(copied.high)


def test_a_judge_agrees_with_itself_but_for_what_it_lacks() -> None:
    first, _ = columns()
    found = compare(first, first)
    assert found.pearson.value == pytest.approx(1.0)
    assert found.same_share == Estimate(1.0)
    assert found.mean_difference == Estimate(0.0)
    assert found.kendall.value == pytest.approx(1.0)
    assert found.neither == int(np.isnan(first).sum())
    assert found.best_agrees


@pytest.mark.parametrize(
    ("first", "second", "why"),
    [
        ([[NAN, NAN]], [[0.1, 0.2]], "0 answers"),
        ([[0.1, 0.2]], [[0.1, 0.2]], "2 answers"),
        ([[0.5, 0.5], [0.5, 0.5]], [[0.1, 0.2], [0.3, 0.4]], "the same score"),
        ([[0.1, 0.2], [0.3, 0.4]], [[0.0, 0.0], [0.0, 0.0]], "the same score"),
    ],
)
def test_what_cannot_be_estimated_is_none_with_a_reason(
    first: list[list[float]], second: list[list[float]], why: str
) -> None:
    found = compare(np.array(first), np.array(second))
    for each in (found.pearson, found.spearman):
        assert each.value is None
        assert why in (each.reason or "")
    assert found.pearson_span.low is None
    assert why in (found.pearson_span.reason or "")


def test_a_zero_is_a_score_and_a_missing_one_is_not() -> None:
    first = np.array([[0.0, 1.0], [0.0, NAN], [1.0, 0.0]])
    second = np.array([[0.0, 1.0], [0.0, 0.0], [1.0, 0.0]])
    found = compare(first, second)
    assert (found.n, found.only_second) == (5, 1)
    assert found.pearson.value == pytest.approx(1.0)


def test_one_model_has_no_rank_and_equal_means_none() -> None:
    one = np.array([[0.1], [0.2], [0.7]])
    assert compare(one, one).kendall == Estimate(None, "one model has no rank")
    flat = np.array([[0.1, 0.3], [0.3, 0.1], [0.2, 0.2]])
    found = compare(flat, flat + np.array([0.0, 0.1]))
    assert found.kendall == Estimate(None, "a judge gives every model the same mean")
    assert found.best_agrees is False


def test_columns_of_different_grids_are_refused() -> None:
    with pytest.raises(DatasetError, match="shapes"):
        compare_judges(("a",), np.zeros((3, 1)), np.zeros((4, 1)))


SCORES = arrays(np.float64, (6, 2), elements=st.sampled_from([0.0, 0.1, 0.5, 1.0, NAN]))


@settings(deadline=None)
@given(SCORES, SCORES)
def test_no_figure_is_ever_nan_and_every_pair_is_counted(first: Floats, second: Floats) -> None:
    found = compare(first, second, resamples=50)
    json.dumps(found.document(), allow_nan=False)
    assert found.n + found.only_first + found.only_second + found.neither == 12
    for each in (found.pearson, found.spearman, found.kendall):
        assert (each.value is None) == (each.reason is not None)
        assert each.value is None or -1.0 <= each.value <= 1.0
    if found.pearson_span.low is not None:
        assert found.pearson_span.high is not None
        assert -1.0 <= found.pearson_span.low <= found.pearson_span.high <= 1.0
