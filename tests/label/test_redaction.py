"""Keys that a server echoes, in whatever form it writes them."""

from __future__ import annotations

import json
import urllib.parse

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rbx.label.redaction import HIDDEN, Redaction

KEY = "sk/SECRET+KEY"
PRINTABLE = st.text(alphabet=st.characters(min_codepoint=33, max_codepoint=126), min_size=8, max_size=40)


@pytest.mark.parametrize(
    "form",
    [
        KEY,
        KEY.replace("/", "\\/"),
        json.dumps(KEY.replace("/", "\\/"))[1:-1],
        urllib.parse.quote(KEY, safe=""),
        "".join(f"\\u{ord(letter):04X}" for letter in KEY),
    ],
)
def test_every_way_to_write_a_key_is_hidden(form: str) -> None:
    both = Redaction([KEY])
    assert both.message(f"a {form} b") == both.data(f"a {form} b") == f"a {HIDDEN} b"


@given(PRINTABLE, st.text(max_size=20))
def test_any_key_is_hidden_plain_and_within_json(key: str, around: str) -> None:
    found = Redaction([key])
    assert key not in found.data(around + key + around).replace(HIDDEN, "")
    assert json.dumps(key)[1:-1] not in found.data(json.dumps({"k": key})).replace(HIDDEN, "")


def test_a_placeholder_is_a_word_of_answers() -> None:
    found = Redaction(["EMPTY", ""])
    assert found.data("The list is EMPTY.") == "The list is EMPTY."
    assert found.message("key EMPTY") == f"key {HIDDEN}"
    assert Redaction([]).message("anything") == "anything"
