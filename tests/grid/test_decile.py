"""Coverage by length against scipy and plain loops."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from rbx.grid.decile import coverage_by_length

PAIRS = st.lists(st.tuples(st.integers(0, 40), st.sampled_from([0.0, 0.5, 1.0])), min_size=3, max_size=60)


@given(PAIRS)
def test_the_correlation_is_spearmans_and_the_parts_are_a_partition(pairs: list[tuple[int, float]]) -> None:
    length, covered = (np.array(values, dtype=np.float64) for values in zip(*pairs, strict=True))
    found = coverage_by_length(length, covered)
    if len(set(length)) == 1 or len(set(covered)) == 1:
        assert found.correlation is found.p_value is None
        assert not found.skewed
    else:
        expected = float(scipy.stats.spearmanr(length, covered).statistic)
        assert found.correlation == pytest.approx(expected, abs=1e-9)
        z = abs(expected) * math.sqrt(len(pairs) - 1)
        assert found.p_value == pytest.approx(2 * scipy.stats.norm.sf(z), abs=1e-9)
    assert sum(each.prompts for each in found.deciles) == len(pairs)
    for one, two in zip(found.deciles, found.deciles[1:], strict=False):
        assert one.high < two.low
    for each in found.deciles:
        inside = [share for size, share in pairs if each.low <= size <= each.high]
        assert each.prompts == len(inside) > 0
        assert each.share == pytest.approx(sum(inside) / len(inside))


def test_different_lengths_make_ten_equal_parts() -> None:
    found = coverage_by_length(np.arange(1000.0), np.ones(1000))
    assert [each.prompts for each in found.deciles] == [100] * 10
    assert (found.deciles[-1].low, found.deciles[-1].high) == (900, 999)


def test_what_fails_for_long_prompts_is_skewed_and_what_fails_at_random_is_not() -> None:
    length = np.arange(500.0)
    assert coverage_by_length(length, (length < 450).astype(np.float64)).skewed
    lost = np.random.default_rng(0).permutation(500) < 50
    assert not coverage_by_length(length, (~lost).astype(np.float64)).skewed
    few = np.arange(20.0)
    assert not coverage_by_length(few, (few < 10).astype(np.float64)).skewed


def test_no_prompt_is_no_coverage() -> None:
    found = coverage_by_length(np.empty(0), np.empty(0))
    assert (found.deciles, found.correlation) == ((), None)
