"""Steps found again in stamps: order of submission, jitter, pauses and gaps must not matter."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from rbx.sweep.compare.chain import Chain, Stamps, chain_of

Floats = NDArray[np.float64]


def stamps(tokens_s: Floats) -> Stamps:
    return Stamps(len(tokens_s), float(tokens_s[0]), float(tokens_s[-1]), tokens_s)


def answers_over(ends_s: Floats, spans: list[tuple[int, int]]) -> list[Stamps]:
    return [stamps(ends_s[first : last + 1]) for first, last in spans]


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.integers(2, 25))
def test_steps_are_found_one_by_one_whatever_the_order_of_the_answers(seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    # A first token less than half a step behind the last of all others may be of either step.
    ends_s = np.cumsum(rng.uniform(0.012, 0.020, 300))
    first = np.sort(rng.integers(0, 250, n))
    spans = [(int(f), int(min(299, f + rng.integers(5, 80)))) for f in first]
    answers = answers_over(ends_s, spans)
    order = rng.permutation(n)
    chain = chain_of([answers[k] for k in order])
    assert chain.aligned.all()
    for k, at in zip(order, range(n), strict=True):
        # A step's own end: those that nobody got a token from are no part of the chain.
        assert chain.end_s[chain.first[at]] == pytest.approx(ends_s[spans[k][0]], rel=1e-12)
        assert chain.end_s[chain.last[at]] == pytest.approx(ends_s[spans[k][1]], rel=1e-12)
        assert chain.last[at] - chain.first[at] == spans[k][1] - spans[k][0]
    covered = {step for f, last in spans for step in range(f, last + 1)}
    assert len(chain.end_s) == len(covered)


def test_steps_shorter_than_the_jitter_of_stamps_are_counted_all_the_same() -> None:
    rng = np.random.default_rng(3)
    ends_s = np.cumsum(rng.uniform(0.0004, 0.0008, 4000))
    spans = [(begin, begin + 400) for begin in range(0, 3500, 90)]
    late = [
        stamps(np.maximum.accumulate(ends_s[first : last + 1] + rng.exponential(0.001, last - first + 1)))
        for first, last in spans
    ]
    chain = chain_of(late)
    assert chain.aligned.all()
    true = max(last for _, last in spans) + 1
    assert abs(len(chain.end_s) - true) <= 0.01 * true
    wrong = np.abs(chain.first - np.array([first for first, _ in spans]))
    assert np.median(wrong) <= 6
    # What counts is the length of a step on average.
    length = (chain.end_s[3000] - chain.end_s[100]) / 2900
    assert abs(length / ((ends_s[3000] - ends_s[100]) / 2900) - 1.0) < 0.02


def test_a_pause_begins_the_chain_anew_and_an_answer_with_a_gap_is_not_laid() -> None:
    ends_s = np.concatenate([np.arange(100) * 0.02, 60.0 + np.arange(100) * 0.02])
    whole, later = stamps(ends_s[:100]), stamps(ends_s[100:150])
    torn = stamps(np.concatenate([ends_s[10:30], ends_s[60:90]]))  # preempted for thirty steps
    chain: Chain = chain_of([whole, torn, later])
    assert chain.aligned.tolist() == [True, False, True]
    assert (chain.first[1], chain.last[1]) == (10, 89)
    assert chain.first[2] == 100
    assert len(chain.end_s) == 150


def test_an_answer_whose_chunks_do_not_add_up_is_placed_by_its_ends() -> None:
    ends_s: Floats = np.linspace(0.0, 1.0, 51)
    bare = Stamps(31, float(ends_s[5]), float(ends_s[35]), None)
    chain = chain_of([stamps(ends_s), bare])
    assert (chain.first[1], chain.last[1], bool(chain.aligned[1])) == (5, 35, False)
