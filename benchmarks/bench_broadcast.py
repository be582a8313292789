"""Broadcasting: how near to its ideal rate an endpoint is kept, and how soon a large run goes on."""

from __future__ import annotations

import asyncio
import multiprocessing
import random
import resource
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from rbx.label.answer import Question
from rbx.label.answer_book import AnswerBook
from rbx.label.answer_row import Pair, row_of_answer
from rbx.label.broadcast import broadcast
from rbx.label.completion import Completion
from rbx.label.journal import Journal
from rbx.label.progress import Silent
from tests.label.broadcasting import model, questions, source
from tests.label.scripted_server import answer, scripted

DELAY_S = 0.05
CONCURRENCY = 32
ASKED = 6000
PROMPTS = 18_608  # as many as RouteBalance kept
MODELS = 4
CHARACTERS = 1500


def _serve(told: Connection) -> None:
    text = "word " * (CHARACTERS // 5)
    with scripted(lambda path, body: answer(text, delay_s=DELAY_S)) as server:
        told.send_bytes(server.url.encode())
        told.recv_bytes()


def _peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _endpoint(folder: Path) -> dict[str, Any]:
    here, there = multiprocessing.Pipe()
    server = multiprocessing.get_context("spawn").Process(target=_serve, args=(there,))
    server.start()
    of = source(model("m", here.recv_bytes().decode(), concurrency=CONCURRENCY))

    async def ask(path: Path, n: int) -> None:
        with Journal(path) as journal:
            await broadcast(questions(n), of, journal, Silent(), asyncio.Event())

    asyncio.run(ask(folder / "warm.jsonl", 200))
    before_mib, started, cpu = _peak_mib(), time.perf_counter(), time.process_time()
    asyncio.run(ask(folder / "rate.jsonl", ASKED))
    seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
    here.send_bytes(b"end")
    server.join()
    return {
        "path": f"broadcast, server of {1000 * DELAY_S:.0f} ms, concurrency {CONCURRENCY}",
        "ours": ASKED / seconds,
        "unit": "answers/s",
        "peer": CONCURRENCY / DELAY_S,
        "peer_name": "the endpoint's ideal rate",
        "ratio": ASKED / seconds * DELAY_S / CONCURRENCY,
        "cpu_ms_per_answer": 1000 * cpu / ASKED,
        "growth_mib": _peak_mib() - before_mib,
    }


def _resume(folder: Path) -> dict[str, Any]:
    dice = random.Random(0)
    words = ["".join(dice.choices("etaoinshrdlu", k=5)) for _ in range(500)]
    digests = {f"model-{number}": f"{number}" * 64 for number in range(MODELS)}
    by_id = {
        f"{number:016x}": Question(f"{number:016x}", f"prompt {number}", "bench", None, None, None, False, 2)
        for number in range(PROMPTS)
    }
    with Journal(folder / "answers.jsonl") as journal:
        for prompt_id in by_id:
            for name, digest in digests.items():
                text = " ".join(dice.choices(words, k=CHARACTERS // 6))
                completion = Completion(text, "stop", 20, 250, name)
                journal.append(row_of_answer(Pair(prompt_id, name, digest), completion, None)._asdict())
        started = time.perf_counter()
        with AnswerBook(journal, digests, by_id) as book:
            seconds = time.perf_counter() - started
            assert sum(counts.ok for counts in book.counts().values()) == PROMPTS * MODELS
            started = time.perf_counter()
            read = sum(1 for _ in book.answers())
            reading = time.perf_counter() - started
    return {
        "path": f"index {PROMPTS:,} × {MODELS} answers of {CHARACTERS:,} characters for resuming",
        "ours": seconds,
        "unit": "s",
        "answers": read,
        "read_all_s": reading,
    }


def rows() -> list[dict[str, Any]]:
    """One row for a live endpoint, one for a journal of full size."""
    with tempfile.TemporaryDirectory() as folder:
        return [_endpoint(Path(folder)), _resume(Path(folder))]
