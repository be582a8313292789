"""What a bundle keeps of lengths, and the errors reported of each way to use it."""

from __future__ import annotations

import numpy as np
import pytest

from rbx.errors import BundleError
from rbx.heads.bea.lengths import whole_tokens
from rbx.heads.bea.survival import SurvivalTable
from rbx.heads.predictions import N_LENGTH_BUCKETS, Predictions
from rbx.heads.remaining import PROGRESS, fit_survival, report_remaining, reserves


def predictions(length_tokens: np.ndarray) -> Predictions:
    shape = length_tokens.shape
    models = tuple(f"m{at}" for at in range(shape[1]))
    return Predictions(models, np.zeros(shape), length_tokens, np.zeros((*shape, N_LENGTH_BUCKETS)))


def test_errors_are_those_of_the_rule_written_out() -> None:
    rng = np.random.default_rng(0)
    prompts, truth = rng.integers(1, 500, 400), rng.geometric(0.02, (400, 1)).astype(np.float64)
    told = np.maximum(truth * rng.lognormal(0, 0.4, (400, 1)), 1.0)
    truth[[3, 7], 0] = np.nan
    table = SurvivalTable.fit(rng.integers(1, 500, 300), rng.geometric(0.02, 300))
    (report,) = report_remaining(predictions(told), truth, prompts, [table], [9])
    assert (report.model, report.n, report.reserve_tokens) == ("m0", 398, 9)
    assert [error.progress for error in report.errors] == list(PROGRESS)
    for error in report.errors:
        by_way: tuple[list[float], ...] = ([], [], [])
        for prompt, total, predicted in zip(prompts, truth[:, 0], told[:, 0], strict=True):
            if np.isnan(total):
                continue
            done = int(error.progress * total)
            b = int(np.sum(prompt > table.edges))
            median = table.medians[b, done] if done < table.medians.shape[1] else 0
            plain, reserved = (max(round(predicted) + reserve, done + 1) for reserve in (0, 9))
            by_way[0].append(abs((median if median else plain) - total))
            by_way[1].append(abs(plain - total))
            by_way[2].append(abs(reserved - total))
        assert error.survivors_tokens == np.median(by_way[0])
        assert error.predicted_tokens == np.median(by_way[1])
        assert error.reserved_tokens == np.median(by_way[2])


def test_survivors_help_where_predictions_say_nothing() -> None:
    rng = np.random.default_rng(1)
    # Answers are short or long, no prompt tells which: whoever is past the short ones is a long one.
    lengths = np.where(rng.random(800) < 0.5, 50, 400) + rng.integers(0, 20, 800).astype(np.float64)
    prompts = rng.integers(1, 500, 800)
    survival = fit_survival(["m0"], prompts[:400], lengths[:400, None])
    told = np.full((400, 1), lengths.mean())
    (report,) = report_remaining(predictions(told), lengths[400:, None], prompts[400:], survival, [0])
    early, late = report.errors[0], report.errors[-1]
    assert late.survivors_tokens < 0.25 * late.predicted_tokens
    assert early.survivors_tokens > late.survivors_tokens


def test_the_reserve_is_the_median_shortfall() -> None:
    told = np.array([[10.0, 50.0], [10.0, 50.0], [10.0, 50.0], [10.0, 50.0]])
    actual = np.array([[5.0, 40.0], [12.0, 50.0], [16.0, np.nan], [30.0, 20.0]])
    assert reserves(told, actual) == (6, 0)


def test_unknown_and_empty_answers_are_left_out() -> None:
    lengths = np.array([[np.nan, 0.0]] + [[20.0, 30.0]] * 9)
    one, two = fit_survival(["a", "b"], np.array([0] + [7] * 9), lengths)
    assert (one.medians[0, 0], two.medians[0, 0]) == (20, 30)
    with pytest.raises(BundleError, match="b: no training prompt has an answer of a token or more"):
        fit_survival(["a", "b"], np.array([7]), np.array([[3.0, 0.0]]))


def test_a_model_without_test_answers_has_no_errors() -> None:
    table = SurvivalTable.fit([5] * 9, [20] * 9)
    (report,) = report_remaining(
        predictions(np.ones((2, 1))), np.full((2, 1), np.nan), np.array([5, 5]), [table], [0]
    )
    assert (report.n, report.errors) == (0, ())


def test_predicted_lengths_become_whole_tokens() -> None:
    np.testing.assert_array_equal(whole_tokens(np.array([0.2, 1.4, 2.6])), [1, 1, 3])
