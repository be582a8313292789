"""Who counted an answer's tokens, and when two counts disagree."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rbx.errors import ConfigError
from rbx.label.answer_book import AnswerBook
from rbx.label.journal import Journal
from rbx.label.recipe import digests
from tests.label.broadcasting import model, questions, rows, run, source
from tests.label.scripted_server import Reply, answer, prompt_of, scripted


def tokenizer(path: Path) -> Path:
    """One token a word, between two special ones, cut at four: what a recount must not be led by."""
    template: list[dict[str, Any]] = [
        {"SpecialToken": {"id": "<s>", "type_id": 0}},
        {"Sequence": {"id": "A", "type_id": 0}},
        {"SpecialToken": {"id": "</s>", "type_id": 0}},
    ]
    tokens = {
        name: {"id": name, "ids": [number], "tokens": [name]} for number, name in ((1, "<s>"), (2, "</s>"))
    }
    document: dict[str, Any] = {
        "version": "1.0",
        "truncation": {"direction": "Right", "max_length": 4, "strategy": "LongestFirst", "stride": 0},
        "padding": {
            "strategy": {"Fixed": 8},
            "direction": "Right",
            "pad_to_multiple_of": None,
            "pad_id": 0,
            "pad_type_id": 0,
            "pad_token": "<unk>",
        },
        "added_tokens": [],
        "normalizer": None,
        "pre_tokenizer": {"type": "WhitespaceSplit"},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": template,
            "pair": template,
            "special_tokens": tokens,
        },
        "decoder": None,
        "model": {"type": "WordLevel", "vocab": {"<unk>": 0, "<s>": 1, "</s>": 2}, "unk_token": "<unk>"},
    }
    path.write_text(json.dumps(document))
    return path


SIX = "one two three four five six"
REPLIES: dict[str, Reply] = {
    "prompt 0": answer(SIX, output_tokens=7),  # with the token that ends it
    "prompt 1": answer(SIX, output_tokens=5, finish_reason="length"),  # one off
    "prompt 2": answer(SIX, output_tokens=12),
    "prompt 3": answer(SIX, input_tokens=None, output_tokens=None),
    "prompt 4": answer(SIX, input_tokens=0, output_tokens=0),
    "prompt 5": answer("", output_tokens=0),
    "prompt 6": answer("", output_tokens=1),
}
COUNTED = {  # input, output, source, recount
    "id0000": (7, 7, "usage", 6),
    "id0001": (7, 5, "usage", 6),
    "id0002": (7, 12, "usage", 6),
    "id0003": (None, 6, "recount", 6),
    "id0004": (None, 6, "recount", 6),
    "id0005": (7, 0, "usage", 0),
    "id0006": (7, 1, "usage", 0),
}


def test_usage_goes_before_a_recount_and_disagreements_are_counted(tmp_path: Path) -> None:
    path, asked = tmp_path / "a.jsonl", questions(7)
    with scripted(lambda _, body: REPLIES[prompt_of(body)]) as server:
        of = source(model("m", server, tokenizer=str(tokenizer(tmp_path / "tokenizer.json"))))
        run(path, asked, of)
    keys = ("input_tokens", "output_tokens", "tokens_source", "recount")
    assert {row["prompt_id"]: tuple(row[key] for key in keys) for row in rows(path)} == COUNTED
    with (
        Journal(path) as journal,
        AnswerBook(journal, digests(of, offline=False), {each.prompt_id: each for each in asked}) as book,
    ):
        counts = book.counts()["m"]
    assert (counts.by_usage, counts.by_recount, counts.uncounted) == (5, 2, 0)
    assert (counts.recounted, counts.disagreeing, counts.truncated) == (5, 1, 1)


def test_without_a_tokenizer_what_the_server_does_not_report_is_null(tmp_path: Path) -> None:
    with scripted(lambda _, body: REPLIES[prompt_of(body)]) as server:
        run(tmp_path / "a.jsonl", questions(7), source(model("m", server)))
    counted = {
        row["prompt_id"]: (row["output_tokens"], row["tokens_source"]) for row in rows(tmp_path / "a.jsonl")
    }
    expected: dict[str, tuple[int | None, str | None]] = {
        key: (output, source) for key, (_, output, source, _) in COUNTED.items()
    }
    assert counted == expected | {"id0003": (None, None), "id0004": (None, None)}


@pytest.mark.parametrize("content", [None, "no json", '{"model": {"type": "BPE"}}'])
def test_a_file_that_is_no_tokenizer_is_told_before_anything_is_asked(
    tmp_path: Path, content: str | None
) -> None:
    path = tmp_path / "tokenizer.json"
    if content is not None:
        path.write_text(content)
    with scripted(lambda _, body: answer("x")) as server:
        of = source(model("fine", server), model("m", server, tokenizer=str(path)))
        with pytest.raises(ConfigError, match=r"source\.models\.1: .*tokenizer\.json"):
            run(tmp_path / "a.jsonl", questions(1), of)
    assert server.seen == []
