"""Closed forms against sums."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rbx.engine.step_time import decode_run_s, decode_steps_within, prefill_work, step_s

COEFFICIENTS = st.tuples(
    st.floats(1e-4, 0.2),
    st.one_of(st.just(0.0), st.floats(1e-7, 1e-3)),
    st.one_of(st.just(0.0), st.floats(1e-10, 1e-5)),
)


@given(st.integers(1, 300), st.integers(0, 3000))
def test_prefill_work_counts_every_pair_of_query_and_key(tokens: int, computed: int) -> None:
    assert prefill_work(tokens, computed) == sum(computed + k for k in range(1, tokens + 1))


@given(st.integers(1, 5000), st.data())
def test_chunks_add_up_to_the_whole_prompt(prompt: int, data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, prompt))
    assert prefill_work(cut, 0) + prefill_work(prompt - cut, cut) == prefill_work(prompt, 0)


def test_step_time_is_the_four_coefficient_sum() -> None:
    assert step_s(0.01, 1e-4, 1e-6, 1e-8, 600, 4000, 125_250) == pytest.approx(
        0.01 + 600e-4 + 4000e-6 + 125_250e-8, rel=1e-12
    )


@given(COEFFICIENTS, st.integers(1, 200), st.integers(0, 200_000), st.integers(1, 400))
def test_a_run_lasts_as_long_as_its_steps(
    b: tuple[float, float, float], decodes: int, context: int, steps: int
) -> None:
    each = [step_s(*b, 0.0, decodes, context + k * decodes, 0) for k in range(steps)]
    assert decode_run_s(*b, decodes, context, steps) == pytest.approx(sum(each), rel=1e-12)


@given(COEFFICIENTS, st.integers(1, 200), st.integers(0, 200_000), st.floats(0.0, 1e5), st.data())
def test_steps_within_a_limit_are_all_that_end_before_it(
    b: tuple[float, float, float], decodes: int, context: int, anchor_s: float, data: st.DataObject
) -> None:
    def end_s(steps: int) -> float:
        return anchor_s + float(decode_run_s(*b, decodes, context, steps))

    about = data.draw(st.integers(0, 3000))
    limit_s = data.draw(
        st.sampled_from([end_s(about), float(np.nextafter(end_s(about), np.inf)), end_s(about) + 0.4 * b[0]])
    )
    steps = decode_steps_within(*b, decodes, context, anchor_s, limit_s)
    assert steps == 0 or end_s(steps) < limit_s
    assert end_s(steps + 1) >= limit_s
