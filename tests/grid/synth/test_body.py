"""Long texts: paragraphs within the length drawn, and nothing left unfilled."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rbx.grid.synth.body import Body
from rbx.grid.synth.template import words

LISTS = {"thing": words("a bell|the wall|one gate")}
SENTENCES = ("{thing} fell in {year:1200-1900}.", "nobody saw {thing2}.", "{n:2-90} were told.", "it rained.")


def body(median: float, spread: float, shortest: int = 80, longest: int = 4_000) -> Body:
    return Body(("[#] On {thing}.",), SENTENCES, 1, 3, median, spread, shortest, longest)


def numbers(seed: int) -> Iterator[float]:
    generator = np.random.default_rng(seed)
    while True:
        yield float(generator.random())


@settings(max_examples=100, deadline=None)
@given(st.floats(50, 8_000), st.floats(0, 2), st.integers(0, 10_000))
def test_a_text_keeps_to_its_longest_and_comes_near_what_was_drawn(
    median: float, spread: float, seed: int
) -> None:
    text = body(median, spread).render(LISTS, numbers(seed))
    assert len(text) <= 4_000
    paragraphs = text.split("\n\n")
    for number, paragraph in enumerate(paragraphs, 1):
        assert re.match(rf"\[{number}\] On (a bell|the wall|one gate)\. [A-Z0-9]", paragraph)
        sentences = re.split(r"(?<=\.) ", paragraph)[1:]
        assert 1 <= len(sentences) <= 3
        assert len(set(sentences)) == len(sentences)
    if spread == 0 and 80 <= median <= 4_000:
        assert median - 90 < len(text) <= median


def test_lengths_are_log_normal_between_their_bounds() -> None:
    drawn = [len(body(1_000, 0.4).render(LISTS, numbers(seed))) for seed in range(2_000)]
    # A text ends within a sentence of the length drawn.
    assert np.median(drawn) == pytest.approx(985, rel=0.06)
    assert np.log(drawn).std() == pytest.approx(0.4, rel=0.12)
    capped = np.array([len(body(1_000, 0.4, longest=900).render(LISTS, numbers(s))) for s in range(500)])
    assert capped.max() <= 900
    assert 0.4 < (capped > 850).mean() < 0.8


@pytest.mark.parametrize("edge", [0.0, 1.0 - 2**-53])
def test_the_ends_of_the_unit_interval_are_lengths_too(edge: float) -> None:
    rest = numbers(1)
    text = body(1_000, 0.4).render(LISTS, (edge if k == 0 else next(rest) for k in range(10_000)))
    assert 40 < len(text) <= 4_000
