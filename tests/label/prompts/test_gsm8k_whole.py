"""The whole of GSM8K, and the problems of it that RouteBalance published."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import pytest

from rbx.grid.split import is_train
from tests.label.prompts.hub_layouts import by_source_id, collected, source_record

TRAIN_ROWS = 7_473
FINAL_NUMBER = re.compile(r"\n#### -?[\d,]*\.?\d+$")


@pytest.mark.shared
def test_every_problem_becomes_a_question_with_a_final_number(shared_data: Path) -> None:
    found = collected({"kind": "gsm8k", "path": str(shared_data / "gsm8k")})
    record = source_record(found, "gsm8k")
    assert record["rows"] == TRAIN_ROWS
    assert record["available"] + sum(record["dropped"].values()) == TRAIN_ROWS
    assert record["dropped"] == {}
    assert len(found.questions) == record["taken"] == TRAIN_ROWS
    for question in found.questions:
        assert question.reference is not None
        assert FINAL_NUMBER.search(question.reference), question.reference[-40:]
    train = sum(is_train(question.prompt_id) for question in found.questions)
    # 5,978 expected, standard deviation 34.6.
    assert 5_840 < train < 6_120


@pytest.mark.shared
def test_the_published_problems_stand_at_the_same_place(shared_data: Path) -> None:
    ours = by_source_id(collected({"kind": "gsm8k", "path": str(shared_data / "gsm8k")}))
    compared = 0
    with gzip.open(shared_data / "routebalance_prompts" / "prompts.jsonl.gz", "rt", encoding="utf-8") as file:
        for line in file:
            published = json.loads(line)
            if not published["source"].startswith("gsm8k/"):
                continue
            problem = published["prompt"].split("\nProblem: ", 1)[1].rsplit("\n", 1)[0]
            assert f"\nProblem: {problem}\n" in ours[published["source"]].prompt
            compared += 1
    assert compared == 510


@pytest.mark.shared
def test_a_draw_of_a_thousand_is_the_same_every_time(shared_data: Path) -> None:
    source = {"kind": "gsm8k", "path": str(shared_data / "gsm8k")}
    thousand = collected(source, total=1_000).questions
    assert [each.source_id for each in thousand] == [
        each.source_id for each in collected(source, total=3_000).questions[:1_000]
    ]
    assert len({each.prompt_id for each in thousand}) == 1_000
