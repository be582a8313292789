"""Closed forms against sums, and the feature sets against one another."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from pydantic import TypeAdapter

from rbx.config.pool import StepTime, StepTimeA, StepTimeB, StepTimeC, StepTimeModel
from rbx.engine.instance_profile import FEATURE_SETS, StepCoefficients
from rbx.engine.step_time import decode_run_s, decode_steps_within, step_s
from tests.engine.oracle import Batch, Request, Share

Floats = NDArray[np.float64]


def _price(smallest: float, largest: float) -> st.SearchStrategy[float]:
    return st.one_of(st.just(0.0), st.floats(smallest, largest))


PRICES = st.tuples(
    st.floats(1e-4, 0.2), _price(1e-7, 1e-3), _price(1e-7, 1e-3),
    _price(1e-10, 1e-5), _price(1e-12, 1e-7), _price(1e-12, 1e-7),
).map(np.array)  # fmt: skip


def every_model(draw: st.DataObject) -> StepTime:
    """One of the three feature sets, with prices drawn for its keys."""
    models: list[type[StepTimeModel]] = [StepTimeA, StepTimeB, StepTimeC]
    model = draw.draw(st.sampled_from(models))
    keys = [key for key in model.model_fields if key not in ("feature_set", "source", "b0_s")]
    prices: dict[str, Any] = {key: draw.draw(_price(1e-9, 1e-3)) for key in keys}
    prices |= {"feature_set": model.__name__[-1], "b0_s": draw.draw(st.floats(1e-4, 0.2)), "source": "drawn"}
    chosen: StepTime = TypeAdapter(StepTime).validate_python(prices)
    return chosen


@given(st.data(), st.lists(st.tuples(st.booleans(), st.integers(1, 300), st.integers(0, 3000)), min_size=1))
def test_a_batch_costs_what_the_formula_of_its_set_says(
    draw: st.DataObject, parts: list[tuple[bool, int, int]]
) -> None:
    model = every_model(draw)
    someone = Request(0, 0.0, 1, 1, 1, False)
    shares = [
        Share(someone, 1 if decodes else tokens, held, decodes, False) for decodes, tokens, held in parts
    ]
    batch = Batch(shares)
    expected = model.b0_s
    for share in shares:  # request by request
        if isinstance(model, StepTimeA):
            expected += model.b1_s_per_token * share.tokens
            pairs = sum(range(share.context + 1, share.context + share.tokens + 1))
            expected += (
                model.b2_s_per_context_token * share.context
                if share.decode
                else model.b3_s_per_attention_unit * pairs
            )
        elif share.decode:
            expected += model.decode_s_per_seq
            expected += model.context_s_per_token * share.context if isinstance(model, StepTimeB) else 0.0
        else:
            expected += model.prefill_s_per_token * share.tokens
            if isinstance(model, StepTimeB):
                expected += model.chunk_s_per_squared_token * share.tokens**2
                expected += model.cross_s_per_token_pair * share.tokens * share.context
    row = np.array(StepCoefficients.of(model).as_b)
    assert step_s(row, *batch.composition()) == pytest.approx(expected, rel=1e-12)


@given(st.data())
def test_coefficients_keep_the_order_of_the_file(draw: st.DataObject) -> None:
    model = every_model(draw)
    told = StepCoefficients.of(model)
    assert (told.feature_set, told.fit_id) == (model.feature_set, "drawn")
    assert len(told.seconds) == len(FEATURE_SETS[model.feature_set])
    assert list(told.seconds) == [value for key, value in model if key not in ("feature_set", "source")]


@given(PRICES, st.integers(1, 200), st.integers(0, 200_000), st.integers(1, 400))
def test_a_run_lasts_as_long_as_its_steps(prices: Floats, decodes: int, context: int, steps: int) -> None:
    each = [step_s(prices, decodes, context + k * decodes, 0, 0, 0) for k in range(steps)]
    assert decode_run_s(prices, decodes, context, steps) == pytest.approx(sum(each), rel=1e-12)


@given(PRICES, st.integers(1, 200), st.integers(0, 200_000), st.floats(0.0, 1e5), st.data())
def test_steps_within_a_limit_are_all_that_end_before_it(
    prices: Floats, decodes: int, context: int, anchor_s: float, data: st.DataObject
) -> None:
    def end_s(steps: int) -> float:
        return anchor_s + float(decode_run_s(prices, decodes, context, steps))

    about = data.draw(st.integers(0, 3000))
    limit_s = data.draw(
        st.sampled_from(
            [end_s(about), float(np.nextafter(end_s(about), np.inf)), end_s(about) + 0.4 * prices[0]]
        )
    )
    steps = decode_steps_within(prices, decodes, context, anchor_s, limit_s)
    assert steps == 0 or end_s(steps) < limit_s
    assert end_s(steps + 1) >= limit_s
