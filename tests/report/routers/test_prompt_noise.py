from __future__ import annotations

from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rbx.report.routers.prompt_noise import NOISES, Noise, mistyped

TEXT = "How many prime numbers lie between 10 and 60? Show every step, then give the count. " * 3


@given(st.text(), st.integers(0, 2**31))
def test_without_a_rate_nothing_changes(text: str, seed: int) -> None:
    assert Noise("none", "typos", partial(mistyped, rate=0.0))(text, seed) == text


@pytest.mark.parametrize("noise", NOISES, ids=lambda noise: noise.name)
@given(text=st.text(min_size=1))
def test_noise_depends_on_text_and_seed_alone_and_leaves_something(noise: Noise, text: str) -> None:
    assert noise(text, 3) == noise(text, 3)
    assert noise(text, 3) != ""


@pytest.mark.parametrize("rate", [0.02, 0.05])
def test_typos_strike_about_as_many_characters_as_they_should(rate: float) -> None:
    noise = Noise("typos", "typos", partial(mistyped, rate=rate))
    letters = sum(sign.isalnum() for sign in TEXT)
    struck = 0
    for seed in range(40):
        changed = noise(TEXT, seed)
        assert changed != TEXT
        struck += edits(TEXT, changed)
    # A swap is two edits, a drop or a double is one: 4/3 a strike on average.
    assert struck / 40 == pytest.approx(rate * letters * 4 / 3, rel=0.25)


def edits(a: str, b: str) -> int:
    """Levenshtein distance."""
    last = list(range(len(b) + 1))
    for i, x in enumerate(a, start=1):
        row = [i]
        for j, y in enumerate(b, start=1):
            row.append(min(last[j] + 1, row[j - 1] + 1, last[j - 1] + (x != y)))
        last = row
    return last[-1]


def test_case_padding_and_paraphrase_keep_the_words() -> None:
    by_name = {noise.name: noise for noise in NOISES}
    assert by_name["upper case"]("Ab 1", 0) == "AB 1"
    assert by_name["lower case"]("Ab 1", 0) == "ab 1"
    for noise in NOISES:
        if noise.kind in ("padding", "paraphrase"):
            assert TEXT in noise(TEXT, 0)
        if noise.kind == "padding":
            assert noise(TEXT, 0).strip() == TEXT.strip()
    assert by_name["Question: … Answer:"]("1+1", 0) == "Question: 1+1\nAnswer:"
