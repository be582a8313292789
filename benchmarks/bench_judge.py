"""Judging: how near to its ideal rate a judge is kept, memory, and how soon a large build goes on.

The judge is a mock server in a process of its own that takes 50 ms for each call; its bound is
concurrency / 50 ms. Both sides share this machine's cores.
"""

from __future__ import annotations

import json
import multiprocessing
import resource
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from rbx.config.labelling import EndpointJudge
from rbx.label.answer import Answer, Question, Verdict
from rbx.label.answer_book import AnswerBook
from rbx.label.answer_row import Pair, row_of_answer
from rbx.label.completion import Completion
from rbx.label.grid_answers import given_answers
from rbx.label.journal import Journal
from rbx.label.judge.build import build_judge
from rbx.label.judge.judge import Judge
from rbx.label.label_book import LabelBook
from rbx.label.progress import Silent
from rbx.label.scoring import Scoring, run_scoring
from tests.label.scripted_server import answer, scripted

DELAY_S = 0.05
CONCURRENCY = 32
CALLS = 6000
PROMPTS, MODELS = 18_608, 4  # as many as RouteBalance kept
JUDGEMENT = json.dumps({"reason": "It is right but for a detail in the last sentence.", "score": 7})


def _serve(told: Connection) -> None:
    with scripted(lambda path, body: answer(JUDGEMENT, delay_s=DELAY_S)) as server:
        told.send_bytes(server.url.encode())
        told.recv_bytes()


@contextmanager
def mock_judge() -> Iterator[Judge]:
    """A judge whose server is another process."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs,), daemon=True)
    process.start()
    url = ours.recv_bytes().decode()
    endpoint = {"url": url, "served_name": "scripted", "concurrency": CONCURRENCY}
    judge = {"name": "mock", "model": "mock", "endpoint": endpoint}
    try:
        yield build_judge(EndpointJudge.model_validate(judge), "judged")
    finally:
        ours.send_bytes(b"end")
        process.join(10.0)


def questions(n: int) -> list[Question]:
    """Prompts as long as RouteBalance's in the mean."""
    text = "Which of the following statements is right, and why? " * 7
    return [Question(f"{at:016x}", f"{at}: {text}", "mock", None, text, None, False, 90) for at in range(n)]


def _judging(judge: Judge, folder: Path) -> dict[str, Any]:
    text = "The first statement is right, because it follows from the definition. " * 20
    given = given_answers([Answer(each, "model", text, 300, "stop") for each in questions(CALLS)])
    with Journal(folder / "labels.jsonl") as journal:
        book = LabelBook(journal, {judge.name: judge.digest})
        started_s, cpu_s, before_mib = time.perf_counter(), time.process_time(), _peak_mib()
        assert run_scoring(Scoring(given, book), [judge], Silent())
        seconds, cpu = time.perf_counter() - started_s, time.process_time() - cpu_s
    return {
        "path": f"judge of {1000 * DELAY_S:.0f} ms through DeepEval, concurrency {CONCURRENCY}",
        "ours": CALLS / seconds,
        "unit": "judgements/s",
        "peer": CONCURRENCY / DELAY_S,
        "peer_name": "the judge's ideal rate",
        "ratio": CALLS / seconds * DELAY_S / CONCURRENCY,
        "cpu_ms_per_judgement": 1000 * cpu / CALLS,
        "added_mib": _peak_mib() - before_mib,
    }


def _resume(judge: Judge, folder: Path) -> dict[str, Any]:
    """A build whose answers and scores are all there: until it knows that nothing is left to ask."""
    asked = {each.prompt_id: each for each in questions(PROMPTS)}
    models = {f"model-{at}": "digest" for at in range(MODELS)}
    _write(judge, folder, asked, models)
    before_mib, started_s = _peak_mib(), time.perf_counter()
    with (
        Journal(folder / "answers.jsonl") as answers,
        Journal(folder / "scores.jsonl") as labels,
        AnswerBook(answers, models, asked) as book,
    ):
        scores = LabelBook(labels, {judge.name: judge.digest})
        assert run_scoring(Scoring(book, scores), [judge], Silent())
        assert len(book.stubs) == PROMPTS * MODELS
    return {
        "path": f"resume of {PROMPTS:,} × {MODELS} answers with their scores",
        "ours": time.perf_counter() - started_s,
        "unit": "s",
        "added_mib": _peak_mib() - before_mib,
    }


def _write(judge: Judge, folder: Path, asked: dict[str, Question], models: dict[str, str]) -> None:
    text = "The first statement is right, because it follows from the definition. " * 20
    verdict = Verdict(0.7, "ok", "It is right but for a detail in the last sentence.")
    with Journal(folder / "answers.jsonl") as journal:
        for prompt_id in asked:
            for model, digest in models.items():
                row = row_of_answer(
                    Pair(prompt_id, model, digest),
                    Completion(f"{model}: {text}", "stop", 90, 300, None),
                    None,
                )
                journal.append(row._asdict())
    with (
        Journal(folder / "answers.jsonl") as answers,
        Journal(folder / "scores.jsonl") as labels,
        AnswerBook(answers, models, asked) as book,
    ):
        scores = LabelBook(labels, {judge.name: judge.digest})
        for stub in book.stubs:
            scores.add(scores.row((judge.name, stub), verdict))


def _peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def rows() -> list[dict[str, Any]]:
    """A judge kept busy, and a build taken up."""
    with tempfile.TemporaryDirectory() as name, mock_judge() as judge:
        return [_judging(judge, Path(name)), _resume(judge, Path(name))]
