"""A judge whose server goes while a stage of scoring runs."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from rbx.errors import ServerError
from rbx.label.answer import Answer, Stub, text_hash
from rbx.label.journal import Journal
from rbx.label.judge.judge import Judge
from rbx.label.label_book import LabelBook
from rbx.label.progress import Silent
from rbx.label.scoring import Scoring, score_answers
from tests.label.judge.judging import QUESTION, answer_to, judge_at
from tests.label.judge.test_reply import GOOD
from tests.label.scripted_server import Reply, Rule, answer, scripted

ANSWERS = [
    # Every fourth has no reference, so that verdicts come without the judge.
    answer_to(QUESTION._replace(prompt_id=f"p{n:03}", reference=None if n % 4 == 3 else "four"))
    for n in range(120)
]


class Listed:
    """Answers in memory."""

    def __init__(self, answers: Sequence[Answer]) -> None:
        self._answers = answers
        self.stubs = [Stub(each.question.prompt_id, each.model, text_hash(each.response)) for each in answers]

    def load(self, at: int) -> Answer:
        return self._answers[at]


def run_stage(folder: Path, rule: Rule) -> None:
    with scripted(rule) as server, Journal(folder / "labels.jsonl") as journal:
        judge = judge_at(server, endpoint={"concurrency": 4})
        book = LabelBook(journal, {judge.name: judge.digest})
        asyncio.run(stage(Scoring(Listed(ANSWERS), book), judge))


async def stage(scoring: Scoring, judge: Judge) -> None:
    try:
        await score_answers(scoring, [judge], Silent(), asyncio.Event())
    finally:
        await judge.close()


def statuses(folder: Path) -> Counter[str]:
    """Rows on disk by their status, of which no answer may have two."""
    with Journal(folder / "labels.jsonl") as journal:
        rows = [row for _, row in journal.entries()]
    assert len({row["prompt_id"] for row in rows}) == len(rows)
    return Counter(row["status"] for row in rows)


@pytest.mark.parametrize("gone", [Reply(status=503), Reply(status=401), Reply(b"<html>")])
def test_the_stage_stops_and_goes_on_where_it_was(tmp_path: Path, gone: Reply) -> None:
    asked = 0

    def goes_after_twenty(path: str, body: object) -> Reply:
        nonlocal asked
        asked += 1
        return answer(GOOD) if asked <= 20 else gone

    with pytest.raises(ServerError, match=r"signal quality: .*the rows so far are kept"):
        run_stage(tmp_path, goes_after_twenty)
    stopped = statuses(tmp_path)
    assert stopped["ok"] == 20
    assert set(stopped) == {"ok", "missing"}
    assert asked < 60
    run_stage(tmp_path, lambda path, body: answer(GOOD))
    assert statuses(tmp_path) == {"ok": 90, "missing": 30}


def test_answers_that_fail_among_others_stay_failed(tmp_path: Path) -> None:
    asked = 0

    def every_third_fails(path: str, body: object) -> Reply:
        nonlocal asked
        asked += 1
        return Reply(status=429) if asked % 3 == 0 else answer(GOOD)

    run_stage(tmp_path, every_third_fails)
    assert statuses(tmp_path) == {"ok": 60, "judge_failed": 30, "missing": 30}
