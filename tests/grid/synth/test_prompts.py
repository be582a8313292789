"""Synthetic prompts: distinct, filled, in the published proportions, and a pure function of the seed."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rbx.errors import DatasetError
from rbx.grid.synth.family import N_TOPICS, Family
from rbx.grid.synth.presets import PRESETS
from rbx.grid.synth.prompts import draw_prompts, family_sizes
from rbx.grid.synth.routebalance_preset import FAMILIES
from rbx.grid.synth.template import Filling, words

PUBLISHED = {
    "maths": 2873,
    "reading": 2933,
    "safety": 2919,
    "instruction": 2885,
    "code": 2778,
    "chat": 2500,
    "preference": 1665,
}


def test_families_have_the_published_sizes() -> None:
    assert {family.name: family.published for family in FAMILIES} == PUBLISHED
    assert sum(PUBLISHED.values()) == 18_553
    assert family_sizes(18_553, FAMILIES) == [family.published for family in FAMILIES]


@given(st.integers(0, 5000))
def test_sizes_add_up_and_stay_within_one_of_their_share(n: int) -> None:
    sizes = family_sizes(n, FAMILIES)
    assert sum(sizes) == n
    for size, family in zip(sizes, FAMILIES, strict=True):
        assert abs(size - n * family.published / 18_553) < 1


def test_prompts_are_distinct_and_filled() -> None:
    drawn = draw_prompts(6000, FAMILIES, np.random.default_rng(0))
    assert len(set(drawn.texts)) == 6000
    assert not any(re.search(r"\{[a-z]+\d?(:|\})", text) for text in drawn.texts)
    assert all(text == text.strip() and "  " not in text for text in drawn.texts)
    lengths = np.array([len(text) for text in drawn.texts])
    # The published prompts have 361 characters on average, 221 in the median.
    assert lengths.mean() == pytest.approx(361, rel=0.08)
    assert np.median(lengths) == pytest.approx(221, rel=0.15)
    assert np.bincount(drawn.cell, minlength=84).min() > 20


def test_prompts_are_a_function_of_the_seed() -> None:
    one, same, other = (draw_prompts(300, FAMILIES, np.random.default_rng(seed)) for seed in (0, 0, 1))
    assert one.texts == same.texts
    assert one.family.tolist() == same.family.tolist()
    assert len(set(one.texts) & set(other.texts)) < 30


def test_the_harmful_are_the_safety_family_and_some_of_preference() -> None:
    drawn = draw_prompts(6000, FAMILIES, np.random.default_rng(0))
    share = {
        family.name: drawn.is_harmful[drawn.family == index].mean() for index, family in enumerate(FAMILIES)
    }
    assert share.pop("safety") == 1.0
    # 90 of the 329 published reward-bench prompts are.
    assert share.pop("preference") == pytest.approx(90 / 329, abs=0.06)
    assert set(share.values()) == {0.0}


def test_every_topic_is_there_with_every_word_a_template_asks_for() -> None:
    families = {id(family): family for preset in PRESETS.values() for family in preset.families}
    assert len(families) == 11
    for family in families.values():
        assert len(family.topics) == N_TOPICS
        body = (*family.body.headings, *family.body.sentences) if family.body else ()
        for lists in family.topic_words():
            for template in (*family.templates, *family.details, *family.questions, *body):
                filled = Filling(lists, iter([0.5] * 40)).fill(template)
                assert "{" not in filled.replace("{items", "")


def test_too_many_prompts_are_refused() -> None:
    small = Family("only", 1, {str(topic): {} for topic in range(N_TOPICS)}, ("one", "two"))
    assert sorted(draw_prompts(2, (small,), np.random.default_rng(0)).texts) == ["one", "two"]
    with pytest.raises(DatasetError, match="fewer than 3 different prompts"):
        draw_prompts(3, (small,), np.random.default_rng(0))


LISTS = {"thing": words("a|b|c"), "who": words("x|y")}


@given(st.lists(st.floats(0, 1, exclude_max=True), min_size=8, max_size=8))
def test_slots_keep_their_word_and_the_second_word_differs(numbers: list[float]) -> None:
    text = Filling(LISTS, iter(numbers)).fill("{thing} {thing} {thing2} {who2} {who} {n:3-9} {n}")
    first, again, second, other, who, number, repeated = text.split()
    assert first == again
    assert second != first
    assert other != who
    assert number == repeated
    assert 3 <= int(number) <= 9
