"""Collecting: filters are counted, quotas filled across sources, and all of it is on record."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from rbx.errors import DatasetError
from rbx.grid.manifest import COUNTED
from rbx.label.prompts.collect import collect
from rbx.label.prompts.draft import REFUSAL
from tests.grid.sources import write_jsonl
from tests.label.prompts.hub_layouts import (
    beaver_row,
    collected,
    prompts,
    reward_bench_row,
    source_record,
    write_gsm8k,
)
from tests.label.test_tokenizer import write_word_tokenizer


def gsm8k(folder: Path, n: int, name: str, **more: Any) -> dict[str, Any]:
    write_gsm8k(folder / name, [f"{name}: what is {k} + 1?" for k in range(n)])
    return {"kind": "gsm8k", "name": name, "path": str(folder / name)} | more


def taken(*sources: dict[str, Any], **more: Any) -> dict[str, int]:
    found = collected(*sources, **more)
    counted = {name: record["taken"] for name, record in found.provenance["prompts"].items()}
    really = [question.source for question in found.questions]
    assert counted == {name: really.count(name) for name in counted}
    return counted


def test_shares_are_equal_unless_said_otherwise(tmp_path: Path) -> None:
    a, b, c = (gsm8k(tmp_path, 50, name) for name in "abc")
    assert taken(a, b, c, total=31) == {"a": 11, "b": 10, "c": 10}
    assert taken(a | {"share": 3.0}, b, c, total=30) == {"a": 18, "b": 6, "c": 6}
    assert taken(a, b, c) == {"a": 50, "b": 50, "c": 50}


def test_what_a_source_lacks_the_others_give_and_it_is_said(tmp_path: Path) -> None:
    said: list[str] = []
    spec = prompts(gsm8k(tmp_path, 4, "a"), gsm8k(tmp_path, 50, "b"), gsm8k(tmp_path, 50, "c"), total=30)
    record = collect(spec, said.append).provenance["prompts"]
    assert [(each["available"], each["quota"], each["taken"]) for each in record.values()] == [
        (4, 10, 4),
        (50, 10, 13),
        (50, 10, 13),
    ]
    assert "a has 4 prompts for its quota of 10" in said


def test_fewer_than_asked_for_are_taken_and_said(tmp_path: Path) -> None:
    said: list[str] = []
    found = collect(prompts(gsm8k(tmp_path, 4, "a"), gsm8k(tmp_path, 5, "b"), total=30), said.append)
    assert (found.provenance["prompts_asked_for"], found.provenance["prompts_taken"]) == (30, 9)
    assert "all sources together have 9 prompts, fewer than the 30 asked for" in said


def test_equal_texts_stay_once_and_are_counted_by_where_they_stood_first(tmp_path: Path) -> None:
    write_gsm8k(tmp_path / "a", ["one?", "two?", "one?"])
    write_gsm8k(tmp_path / "b", ["two?", "three?", "one?", "three?"])
    found = collected(*({"kind": "gsm8k", "name": name, "path": str(tmp_path / name)} for name in "ab"))
    assert sorted((question.source, question.source_id) for question in found.questions) == [
        ("a", "gsm8k/0"),
        ("a", "gsm8k/1"),
        ("b", "gsm8k/1"),
    ]
    assert source_record(found, "a")["dropped"] == {"duplicate": 1}
    assert source_record(found, "b")["dropped"] == {"duplicate": 1, "duplicate of another source": 2}


def test_the_length_limit_counts_the_whole_prompt(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [{"q": text} for text in ("a b c d", "a b c d e", " ", None)]
    path = write_jsonl(tmp_path / "p.jsonl", rows)
    source = {"kind": "table", "name": "mine", "path": str(path), "columns": {"prompt": "q"}}
    tokenizer = write_word_tokenizer(tmp_path / "tokenizer.json")
    found = collected(source, max_prompt_tokens=4, tokenizer=str(tokenizer))
    assert [(question.prompt, question.input_tokens) for question in found.questions] == [("a b c d", 4)]
    assert source_record(found, "mine")["dropped"] == {
        "empty prompt": 2,
        "more tokens than max_prompt_tokens": 1,
    }
    assert found.provenance["input_tokens"].startswith("counted")
    assert found.provenance["input_tokens"] != COUNTED
    assert found.provenance["tokenizer_sha256"] == hashlib.sha256(tokenizer.read_bytes()).hexdigest()
    # Characters / 4 of "a b c d e" are 3.
    estimated = collected(source, max_prompt_tokens=3)
    assert {question.prompt: question.input_tokens for question in estimated.questions} == {
        "a b c d": 2,
        "a b c d e": 3,
    }
    assert estimated.provenance["input_tokens"].startswith("estimated")
    assert len(collected(source, max_prompt_tokens=None).questions) == 2


def test_prompts_that_a_format_adds_to_are_measured_with_it(tmp_path: Path) -> None:
    source = gsm8k(tmp_path, 1, "a")
    (question,) = collected(source).questions
    assert question.input_tokens == -(-len(question.prompt) // 4)
    with pytest.raises(DatasetError, match=r"no prompt passes .* a: 1 rows \(1 more tokens than"):
        collected(source, max_prompt_tokens=question.input_tokens - 1)


def test_a_harmful_prompt_without_a_reference_expects_a_refusal(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"q": "harmful", "h": True},
        {"q": "harmful too", "h": "yes", "r": "No."},
        {"q": "harmless"},
    ]
    path = write_jsonl(tmp_path / "p.jsonl", rows)
    columns = {"prompt": "q", "is_harmful": "h", "reference": "r"}
    found = collected({"kind": "table", "name": "mine", "path": str(path), "columns": columns})
    assert {question.prompt: (question.is_harmful, question.reference) for question in found.questions} == {
        "harmful": (True, REFUSAL),
        "harmful too": (True, "No."),
        "harmless": (False, None),
    }


def test_the_record_holds_no_path_and_is_plain_json(tmp_path: Path) -> None:
    found = collected(gsm8k(tmp_path, 3, "a"), tokenizer=str(write_word_tokenizer(tmp_path / "tok.json")))
    assert str(tmp_path) not in json.dumps(found.provenance)
    file = tmp_path / "a" / "train.jsonl.gz"
    assert source_record(found, "a")["files"] == {
        "train.jsonl.gz": hashlib.sha256(file.read_bytes()).hexdigest()
    }


def test_the_same_spec_gives_the_same_questions_and_another_seed_others(tmp_path: Path) -> None:
    sources = [gsm8k(tmp_path, 60, name) for name in "ab"]
    first = collected(*sources, total=20, seed=0)
    assert first == collected(*sources, total=20, seed=0)
    other = {question.prompt_id for question in collected(*sources, total=20, seed=1).questions}
    assert len(other & {question.prompt_id for question in first.questions}) < 15


def test_sources_stand_mixed_so_that_the_first_questions_are_a_sample(tmp_path: Path) -> None:
    questions = collected(*(gsm8k(tmp_path, 200, name) for name in "ab")).questions
    # 50 of the first 100 expected, standard deviation 4.3.
    assert 25 < sum(question.source == "a" for question in questions[:100]) < 75


def test_each_source_has_its_licence_on_record(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "train.jsonl.gz", [beaver_row("harm", "self_harm")])
    write_jsonl(tmp_path / "r.jsonl", [reward_bench_row("donotanswer", 1, "no")])
    path = write_jsonl(tmp_path / "p.jsonl", [{"q": "mine"}])
    found = collected(
        {"kind": "beaver_tails", "path": str(tmp_path)},
        {"kind": "reward_bench", "name": "rb", "path": str(tmp_path / "r.jsonl")},
        {"kind": "table", "name": "mine", "path": str(path), "columns": {"prompt": "q"}},
    )
    assert {name: record["licence"] for name, record in found.provenance["prompts"].items()} == {
        "beaver_tails": "CC-BY-NC-4.0",
        "rb": "ODC-BY",
        "mine": "see the file's owner",
    }


def test_a_missing_file_is_found_before_any_is_read(tmp_path: Path) -> None:
    said: list[str] = []
    absent = {"kind": "squad", "path": str(tmp_path / "absent")}
    with pytest.raises(DatasetError, match=r"absent: no such file or folder"):
        collect(prompts(gsm8k(tmp_path, 3, "a"), absent), said.append)
    assert said == []
    (tmp_path / "absent").mkdir()
    with pytest.raises(DatasetError, match=r"absent: holds no plain_text/train-\*\.parquet; give"):
        collect(prompts(absent), said.append)
    table = {"kind": "table", "name": "t", "path": str(tmp_path / "no.csv"), "columns": {"prompt": "q"}}
    with pytest.raises(DatasetError, match=r"no\.csv: no such file"):
        collect(prompts(table), said.append)
