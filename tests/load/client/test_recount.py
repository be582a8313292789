"""Tokens counted anew, where the server gave no count or one that can't be believed."""

from __future__ import annotations

from pathlib import Path

import pytest

from rbx.label.tokenizer import TokenCounter
from rbx.load.client.recount import recounted
from rbx.load.client.result import LoadResult, not_sent
from tests.label.test_tokenizer import write_word_tokenizer


@pytest.fixture
def words(tmp_path: Path) -> TokenCounter:
    """A token a word; its template would put a token before each text."""
    return TokenCounter(write_word_tokenizer(tmp_path / "tokenizer.json"))


def answered(**facts: object) -> LoadResult:
    blank = vars(not_sent(0, 0.0))
    return LoadResult(**{**blank, "status": "ok", "fault": None, **facts})


def test_a_text_is_counted_once_and_as_a_whole(words: TokenCounter) -> None:
    in_24_chunks = answered(
        output_tokens=24,
        tokens_source="chunks",
        text=" ".join("abcdefgh"),
        reasoning="so it is",
        chunk_tokens=(1,) * 24,
    )
    found = recounted(in_24_chunks, words)
    assert (found.output_tokens, found.tokens_source, found.usage_disagrees) == (8 + 3, "recount", False)


def test_usage_is_kept_and_a_far_count_is_told(words: TokenCounter) -> None:
    spaces = answered(output_tokens=100, tokens_source="usage", text=" " * 100)
    found = recounted(spaces, words)
    assert (found.output_tokens, found.tokens_source, found.usage_disagrees) == (100, "usage", True)
    # An end token has no text.
    assert not recounted(
        answered(output_tokens=9, tokens_source="usage", text="a b c d e f g"), words
    ).usage_disagrees


def test_what_has_no_text_to_count_stays(words: TokenCounter) -> None:
    for kept in (
        answered(output_tokens=5, tokens_source="chunks", finish_reason="tool_calls"),
        not_sent(0, 0.0, "drain"),
    ):
        assert recounted(kept, words) == kept
