"""Identities, order and split of prompts."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rbx.grid.order import natural_order
from rbx.grid.split import is_train, prompt_id


@given(st.text(min_size=1))
def test_the_split_is_the_published_rule(key: str) -> None:
    head = int.from_bytes(hashlib.md5(key.encode()).digest()[:4], "big")
    assert is_train(key) == (head < 0.8 * 0xFFFFFFFF)


def test_four_fifths_are_train() -> None:
    share = sum(is_train(f"request-{number}") for number in range(20_000)) / 20_000
    assert share == pytest.approx(0.8, abs=0.01)


def test_an_identity_is_sixteen_hex_digits_of_the_text() -> None:
    assert prompt_id("héllo") == hashlib.sha256("héllo".encode()).hexdigest()[:16]
    assert prompt_id("a") != prompt_id("a ")


def test_models_are_ordered_by_size() -> None:
    names = ["Qwen2.5-72B", "Qwen2.5-7B", "Qwen2.5-0.5B", "Qwen2.5-14B", "gemma", "Qwen2.5-7B"]
    expected = ["gemma", "Qwen2.5-0.5B", "Qwen2.5-7B", "Qwen2.5-14B", "Qwen2.5-72B"]
    assert natural_order(names) == expected


@given(st.lists(st.text(alphabet="aB12.-", max_size=8)))
def test_the_order_does_not_depend_on_the_order_given(names: list[str]) -> None:
    assert natural_order(names) == natural_order(reversed(names)) == natural_order(set(names))
    assert sorted(natural_order(names)) == sorted(set(names))
