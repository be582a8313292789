"""Exact match and F1 against a second reading of SQuAD's rules."""

from __future__ import annotations

import re
import string
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rbx.config.labelling import ExactSignal, TokenF1Signal
from rbx.label.answer import Verdict
from rbx.label.signals.exact import exact_match, exact_signal
from rbx.label.signals.token_f1 import token_f1, token_f1_signal
from tests.label.signals.answers import answered, scored

EXACT = exact_signal(ExactSignal(kind="exact", name="exact"))
F1 = token_f1_signal(TokenF1Signal(kind="token_f1", name="f1"))

TEXTS = st.lists(st.sampled_from(["The", "a", "cat", "Cat!", "mat", "an-", "sat.", " "]), max_size=8).map(
    " ".join
)


def reread(text: str) -> list[str]:
    letters = [letter for letter in text.lower() if letter not in string.punctuation]
    return [word for word in re.split(r"\s+", "".join(letters)) if word not in ("", "a", "an", "the")]


def f1_by_removal(given_words: Sequence[str], wanted: Sequence[str]) -> float:
    left = list(wanted)
    shared = 0
    for word in given_words:
        if word in left:
            left.remove(word)
            shared += 1
    if not given_words or not wanted:
        return float(list(given_words) == list(wanted))
    precision, recall = shared / len(given_words), shared / len(wanted)
    return 2 * precision * recall / (precision + recall) if shared else 0.0


@pytest.mark.parametrize(
    ("response", "reference", "exact", "f1"),
    [
        ("The Denver Broncos.", "denver broncos", 1.0, 1.0),
        ("Broncos Denver", "Denver Broncos", 0.0, 1.0),
        ("It was Denver", "Denver", 0.0, 0.5),
        ("cat cat cat", "cat", 0.0, 0.5),  # a set would find them equal
        ("dog", "cat", 0.0, 0.0),
        ("the", "A", 1.0, 1.0),  # nothing is left of either
        ("the", "cat", 0.0, 0.0),
        ("!", "cat", 0.0, 0.0),
        ("  Denver \n Broncos ", "Denver Broncos", 1.0, 1.0),
        ("theory", "ory", 0.0, 0.0),
    ],
)
def test_scores_of_pairs(response: str, reference: str, exact: float, f1: float) -> None:
    answer = answered(response, reference)
    assert scored(EXACT, [answer]) == [Verdict(exact, "ok")]
    assert scored(F1, [answer])[0].score == pytest.approx(f1)


@pytest.mark.parametrize("reference", [None, "", " \n"])
def test_without_a_reference_there_is_no_score(reference: str | None) -> None:
    for signal in (EXACT, F1):
        assert scored(signal, [answered("x", reference)]) == [Verdict(None, "missing", "no reference")]


@settings(deadline=None)
@given(TEXTS, TEXTS)
def test_both_agree_with_a_second_reading(response: str, reference: str) -> None:
    mine, theirs = reread(response), reread(reference)
    assert token_f1(response, reference) == pytest.approx(f1_by_removal(mine, theirs))
    assert exact_match(response, reference) == float(mine == theirs)


@settings(deadline=None)
@given(TEXTS | st.text(max_size=30), TEXTS | st.text(max_size=30))
def test_f1_is_symmetric_and_bounded(one: str, other: str) -> None:
    f1 = token_f1(one, other)
    assert 0.0 <= f1 <= 1.0
    assert f1 == token_f1(other, one)
    assert token_f1(one, one) == exact_match(one, one) == 1.0
    assert exact_match(one, other) <= f1


@settings(deadline=None)
@given(TEXTS, TEXTS)
def test_f1_is_one_only_for_the_same_words(one: str, other: str) -> None:
    assert (token_f1(one, other) == 1.0) == (sorted(reread(one)) == sorted(reread(other)))


def test_signals_have_digests_of_their_own() -> None:
    assert EXACT.digest != F1.digest
