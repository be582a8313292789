"""Rates against averages over explicit windows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rbx.policy.ttft.rates import Rates


def plain_rate(at_s: list[float], now_s: float, prior: float, least: int) -> float:
    """Every whole second up to now in turn: 0.8 of the average so far and 0.2 of the count."""
    if len(at_s) < least:
        return prior
    average = prior
    for second in range(int(now_s)):
        average += 0.2 * (sum(second <= t < second + 1 for t in at_s) - average)
    return average


@settings(max_examples=200, deadline=None)
@given(
    seed=st.integers(0, 2**31), n=st.integers(0, 60), least=st.sampled_from([0, 5]), span_s=st.floats(0.5, 30)
)
def test_they_are_averages_over_whole_seconds(seed: int, n: int, least: int, span_s: float) -> None:
    rng = np.random.default_rng(seed)
    at_s = np.sort(rng.uniform(0.0, span_s, n))
    instance = rng.integers(0, 3, n)
    priors = np.array([0.0, 1.0, 5.0])
    rates = Rates(priors, least)
    for i, t in zip(instance.tolist(), at_s.tolist(), strict=True):
        rates.note(i, t)
    now_s = span_s + float(rng.uniform(0.0, 5.0))
    rates.move_to(now_s)
    expected = [plain_rate(at_s[instance == i].tolist(), now_s, float(priors[i]), least) for i in range(3)]
    assert rates.per_s == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_a_steady_stream_settles_at_its_rate_and_silence_empties_it() -> None:
    rates = Rates(np.zeros(2))
    for t in np.arange(0.0, 60.0, 0.25):
        rates.note(1, float(t))
    assert rates.per_s == pytest.approx([0.0, 4.0], abs=0.01)
    rates.move_to(120.0)
    assert rates.per_s[1] < 1e-4


def test_a_second_that_ends_at_now_is_counted_and_the_priors_are_left_alone() -> None:
    priors = np.array([2.0])
    rates = Rates(priors)
    rates.note(0, 0.5)
    rates.move_to(1.0)
    assert rates.per_s == pytest.approx([2.0 + 0.2 * (1.0 - 2.0)])
    assert priors.tolist() == [2.0]
