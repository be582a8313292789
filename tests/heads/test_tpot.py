"""TPOT heads: better than a constant, monotone in load, and strict about their inputs."""

from __future__ import annotations

import numpy as np
import pytest

from rbx.engine.telemetry import TPOT_FEATURES
from rbx.errors import BundleError
from rbx.heads.rate_sweep import LengthPool, sweep_tier
from rbx.heads.tpot import latency_s
from rbx.heads.tpot_fit import FittedTpot, fit_tpot
from tests.heads import pools

POOL = pools.pool()


@pytest.fixture(scope="module")
def fitted() -> FittedTpot:
    rng = np.random.default_rng(0)
    output = rng.integers(10, 200, 300)
    lengths = LengthPool(rng.integers(10, 100, 300), output, output)
    return fit_tpot(POOL.tiers, tuple(sweep_tier(tier, lengths, seed=0) for tier in POOL.tiers))


def states(n: int) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    busy = np.linspace(0, 16, n)
    return np.column_stack([busy, 0 * busy, 0 * busy, 90 * busy, 100 * busy, busy / 160])


def test_heads_beat_the_constant_on_time_they_never_saw(fitted: FittedTpot) -> None:
    for tier, report in zip(POOL.tiers, fitted.reports, strict=True):
        assert report.tier == tier.name
        assert report.n_test > 500
        assert report.n_train > report.n_test
        assert report.tpot_mae_ms < 0.5 * report.prior_tpot_mae_ms
        assert report.tpot_mape < 0.1
        assert report.n_free > 300
        assert report.e2e_mape_free is not None
        assert report.prior_e2e_mape_free is not None
        assert report.e2e_mape_free < report.prior_e2e_mape_free


def test_each_instance_is_answered_by_its_own_tier(fitted: FittedTpot) -> None:
    features = np.tile(states(2)[1:], (4, 1))
    answers = fitted.heads.predict(features, np.array([0, 1, 0, 1]))
    assert answers[0] == answers[2] > answers[1] == answers[3] > 0


def test_more_running_sequences_never_make_a_token_faster(fitted: FittedTpot) -> None:
    base = np.repeat(states(5), 17, axis=0)
    base[:, TPOT_FEATURES.index("running")] = np.tile(np.arange(17), 5)
    answers = fitted.heads.predict(base, np.zeros(len(base), dtype=np.int64)).reshape(5, 17)
    assert (np.diff(answers, axis=1) >= 0).all()
    assert answers[-1, -1] > answers[0, 0]


def test_no_answer_is_faster_than_anything_seen(fitted: FittedTpot) -> None:
    rng = np.random.default_rng(1)
    wild = rng.random((500, len(TPOT_FEATURES))) * 10.0 ** rng.integers(-3, 7, (500, 1))
    for index, tier in enumerate(POOL.tiers):
        answers = fitted.heads.predict(wild, np.full(500, index))
        assert answers.min() >= tier.step_time.b0_s


def test_low_load_median_agrees_with_the_step_time(fitted: FittedTpot) -> None:
    for tier, median_s in zip(POOL.tiers, fitted.prior.low_load_s, strict=True):
        assert median_s == pytest.approx(tier.step_time.b0_s, rel=0.1)
    np.testing.assert_array_equal(fitted.prior.declared_s, [tier.tpot_prior_s for tier in POOL.tiers])


@pytest.mark.parametrize(
    ("features", "tiers", "said"),
    [
        (np.zeros((2, 6)), [0], "have shape"),
        (np.zeros((1, 5)), [0], "have shape"),
        (np.array([[1.0, np.nan, 0, 0, 0, 0]]), [0], "instance 0: waiting is not finite"),
        (np.zeros((1, 6)), [2], "outside the 2 tiers"),
        (np.zeros((1, 6)), [-1], "outside the 2 tiers"),
    ],
)
def test_faulty_inputs_are_refused(
    fitted: FittedTpot,
    features: np.ndarray[tuple[int, int], np.dtype[np.float64]],
    tiers: list[int],
    said: str,
) -> None:
    with pytest.raises(BundleError, match=said):
        fitted.heads.predict(features, np.array(tiers, dtype=np.int64))


def test_no_instance_gives_no_answer(fitted: FittedTpot) -> None:
    assert fitted.heads.predict(np.zeros((0, 6)), np.zeros(0, dtype=np.int64)).shape == (0,)


def test_latency_follows_the_published_formula() -> None:
    free = [3.0, 0.0, 0.0, 600.0, 0.0, 0.0]
    waiting = [4.0, 1.0, 0.0, 600.0, 0.0, 0.0]
    full = [8.0, 0.0, 0.0, 600.0, 0.0, 0.0]
    empty = [0.0, 2.0, 0.0, 600.0, 0.0, 0.0]  # nothing runs yet: b counts as 1
    answers = latency_s(np.array([free, waiting, full, empty]), np.full(4, 0.02), np.full(4, 100.0), 8)
    assert answers.tolist() == pytest.approx([2.0, 0.02 * (150 + 100), 0.02 * (75 + 100), 0.02 * (600 + 100)])
