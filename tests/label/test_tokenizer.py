"""Tokens are counted by a tokenizer.json, or estimated and said to be."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit
from tokenizers.processors import TemplateProcessing

from rbx.errors import DatasetError
from rbx.label.tokenizer import TokenCounter


def write_word_tokenizer(path: Path) -> Path:
    """A token a word; truncation, padding and special tokens are on, as models ship them."""
    tokenizer = Tokenizer(WordLevel({"[UNK]": 0, "[BOS]": 1}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = WhitespaceSplit()
    tokenizer.post_processor = TemplateProcessing(single="[BOS] $A", special_tokens=[("[BOS]", 1)])
    tokenizer.enable_truncation(4)
    tokenizer.enable_padding(length=9)
    tokenizer.save(str(path))
    return path


def test_words_are_counted_whole_and_without_special_tokens(tmp_path: Path) -> None:
    path = write_word_tokenizer(tmp_path / "tokenizer.json")
    counter = TokenCounter(path)
    assert counter.counts(["one", "one two  three\nfour five six seven", ""]) == [1, 7, 0]
    assert counter.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert counter.origin.startswith("counted with tokenizer.json (sha256 ")
    assert str(tmp_path) not in counter.origin


def test_without_a_tokenizer_it_is_an_estimate_and_says_so() -> None:
    counter = TokenCounter(None)
    assert counter.counts(["", "abcd", "abcde"]) == [0, 1, 2]
    assert counter.origin.startswith("estimated")
    assert counter.sha256 is None


def test_a_file_that_is_no_tokenizer_is_named(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    with pytest.raises(DatasetError, match=rf"{path}: the tokenizer can't be read: No such file"):
        TokenCounter(path)
    for content in (b"{}", b"\xff\xfe", b'{"model": "Qwen"}'):
        path.write_bytes(content)
        with pytest.raises(DatasetError, match=rf"{path}: not a tokenizer .* give the tokenizer.json"):
            TokenCounter(path)
