"""A judge whose server goes while a stage of scoring runs."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import pytest

from rbx.errors import ServerError
from rbx.label.grid_answers import given_answers
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


def run_stage(folder: Path, rule: Rule) -> None:
    with scripted(rule) as server, Journal(folder / "labels.jsonl") as journal:
        judge = judge_at(server, endpoint={"concurrency": 4})
        book = LabelBook(journal, {judge.name: judge.digest})
        asyncio.run(stage(Scoring(given_answers(ANSWERS), book), judge))


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
    assert set(stopped) == {"ok"}
    assert asked < 60
    run_stage(tmp_path, lambda path, body: answer(GOOD))
    assert statuses(tmp_path) == {"ok": 90}


@pytest.mark.parametrize("status", [401, 503])
def test_fewer_failures_than_an_outage_are_no_judgements_either_if_the_server_is_gone(
    tmp_path: Path, status: int
) -> None:
    few = given_answers(ANSWERS[:3])
    with scripted(lambda path, body: Reply(status=status), listing_status=lambda: status) as server:
        judge = judge_at(server, endpoint={"concurrency": 4, "attempts": 1})
        with Journal(tmp_path / "labels.jsonl") as journal:
            book = LabelBook(journal, {judge.name: judge.digest})
            with pytest.raises(ServerError, match="its server is gone"):
                asyncio.run(stage(Scoring(few, book), judge))
    assert not statuses(tmp_path)


def test_what_a_living_judge_fails_at_the_end_is_kept_as_failed(tmp_path: Path) -> None:
    few = given_answers(ANSWERS[:3])
    with scripted(lambda path, body: Reply(status=503)) as server:
        judge = judge_at(server, endpoint={"concurrency": 4, "attempts": 1})
        with Journal(tmp_path / "labels.jsonl") as journal:
            book = LabelBook(journal, {judge.name: judge.digest})
            asyncio.run(stage(Scoring(few, book), judge))
    assert statuses(tmp_path) == {"judge_failed": 3}


def test_answers_that_fail_among_others_stay_failed(tmp_path: Path) -> None:
    asked = 0

    def every_third_fails(path: str, body: object) -> Reply:
        nonlocal asked
        asked += 1
        return Reply(status=429) if asked % 3 == 0 else answer(GOOD)

    run_stage(tmp_path, every_third_fails)
    assert statuses(tmp_path) == {"ok": 60, "judge_failed": 30}
