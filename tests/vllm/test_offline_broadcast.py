"""Answers from vLLM's batch API on a real engine: their rows, their tokens, and what survives a kill."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("vllm", reason="needs the CPU build of vLLM")

from transformers import AutoTokenizer

from rbx.config.labelling import LabelSource
from rbx.errors import ServerError
from rbx.label.answer import Question
from rbx.label.broadcast import BroadcastReport
from rbx.label.journal import Journal
from rbx.label.offline_vllm import generate_offline
from rbx.label.progress import Silent
from tests.label.broadcasting import rows, source
from tests.vllm.tiny_model import make_model
from tests.workplace import ROOT

pytestmark = pytest.mark.vllm

CONTEXT = 64
ENGINE = {"enforce_eager": True, "max_model_len": CONTEXT}
N = 12
ANSWER_TOKENS = 8


def asked(n: int = N) -> list[Question]:
    texts = [" ".join(f"w{(7 * number + word) % 900 + 10}" for word in range(5)) for number in range(n)]
    return [
        Question(f"id{number:03}", text, "tests", None, None, None, False, 5)
        for number, text in enumerate(texts)
    ]


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_model(tmp_path_factory.mktemp("plain"), layers=1, context=CONTEXT)


@pytest.fixture(scope="module")
def chatty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same model with a chat template of three words around each message."""
    folder = make_model(tmp_path_factory.mktemp("chatty"), layers=1, context=CONTEXT)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.chat_template = "{% for m in messages %}w100 {{ m['content'] }} w200 {% endfor %}w300"
    tokenizer.save_pretrained(folder)
    return folder


def candidate(name: str, folder: Path) -> dict[str, Any]:
    return {"name": name, "weights": str(folder), "engine": ENGINE}


def run(
    path: Path, questions: list[Question], of: LabelSource, stop: asyncio.Event | None = None
) -> BroadcastReport:
    async def work() -> BroadcastReport:
        with Journal(path) as journal:
            return await generate_offline(questions, of, journal, Silent(), stop or asyncio.Event())

    return asyncio.run(work())


def completions(*names: str, folder: Path, **extra: Any) -> LabelSource:
    return source(
        *(candidate(name, folder) for name in names),
        api="completions",
        max_tokens=ANSWER_TOKENS,
        extra={"ignore_eos": True, **extra},
    )


TOO_LONG = Question("long", "w50 " * 2 * CONTEXT, "tests", None, None, None, False, 2 * CONTEXT)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, weights: Path) -> Path:
    """The journal of an uninterrupted run of two models, one prompt of which is too long."""
    path = tmp_path_factory.mktemp("whole") / "a.jsonl"
    report = run(path, [*asked(), TOO_LONG], completions("first", "second", folder=weights))
    assert [(each.model, each.ok, each.error) for each in report.models] == [
        ("first", N, 1),
        ("second", N, 1),
    ]
    return path


def test_completions_of_two_models_have_the_engines_own_counts(whole: Path, weights: Path) -> None:
    kept = {(row["model"], row["prompt_id"]): row for row in rows(whole)}
    assert len(kept) == 2 * (N + 1)
    for question in asked():
        row = kept["first", question.prompt_id]
        assert (row["input_tokens"], row["output_tokens"], row["tokens_source"]) == (
            5,
            ANSWER_TOKENS,
            "usage",
        )
        assert len(row["text"].split()) == ANSWER_TOKENS
        assert row["finish_reason"] == "length"
        assert row["served_model"] == str(weights)
        assert row["text"] == kept["second", question.prompt_id]["text"], "the same weights, the same answers"
    assert kept["first", "long"]["status"] == "error"
    assert str(CONTEXT) in kept["first", "long"]["error"]


def test_what_is_there_already_loads_no_model(whole: Path, tmp_path: Path, weights: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(whole.read_bytes())
    of = completions("first", "second", folder=weights)
    report = run(tmp_path / "a.jsonl", [*asked(), TOO_LONG], of)
    assert [each.kept for each in report.models] == [N + 1, N + 1]
    assert list(tmp_path.iterdir()) == [tmp_path / "a.jsonl"], "no log: no engine was started"


def test_chat_goes_through_the_models_template(tmp_path: Path, chatty: Path) -> None:
    of = source(candidate("m", chatty), max_tokens=ANSWER_TOKENS, system="w20 w30")
    report = run(tmp_path / "a.jsonl", asked(), of)
    assert report.models[0].ok + report.models[0].empty == N
    assert {row["input_tokens"] for row in rows(tmp_path / "a.jsonl")} == {(1 + 2 + 1) + (1 + 5 + 1) + 1}


def test_a_model_that_takes_no_chat_is_told_and_nothing_is_kept(tmp_path: Path, weights: Path) -> None:
    with pytest.raises(ServerError, match=r"m: vLLM refuses every prompt: .*chat template"):
        run(tmp_path / "a.jsonl", asked(), source(candidate("m", weights)))
    assert rows(tmp_path / "a.jsonl") == []


def test_a_parameter_that_the_engine_does_not_have_is_told(tmp_path: Path, weights: Path) -> None:
    with pytest.raises(ServerError, match=r"m: vLLM with .*no_such_parameter"):
        run(tmp_path / "a.jsonl", asked(), completions("m", folder=weights, no_such_parameter=1))


def test_a_folder_without_a_model_is_told(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(ServerError, match=r"m: vLLM with .*empty can't be run: "):
        run(tmp_path / "a.jsonl", asked(), source(candidate("m", tmp_path / "empty")))


PROGRAM = """
import asyncio, json, sys
from pathlib import Path
from rbx.config.labelling import LabelSource
from rbx.label import offline_vllm
from tests.vllm.test_offline_broadcast import asked, run

offline_vllm.CHUNK = 2
run(Path(sys.argv[1]), asked(), LabelSource.model_validate(json.loads(sys.argv[2])))
"""


def test_a_kill_costs_a_batch_and_leaves_no_engine(tmp_path: Path, weights: Path, whole: Path) -> None:
    path = tmp_path / "a.jsonl"
    of = completions("first", folder=weights)
    command = [sys.executable, "-c", PROGRAM, str(path), json.dumps(of.model_dump(mode="json"))]
    with subprocess.Popen(command, cwd=ROOT) as killed:
        while killed.poll() is None and not (path.is_file() and path.stat().st_size):
            time.sleep(0.005)
        workers = _children(killed.pid)
        killed.send_signal(signal.SIGKILL)
    assert killed.returncode == -signal.SIGKILL, "it was done before it could be killed"
    assert len(workers) == 1
    kept = rows(path)
    assert 0 < len(kept) < N
    until_s = time.monotonic() + 60.0
    while _alive(workers[0]) and time.monotonic() < until_s:
        time.sleep(0.05)
    assert not _alive(workers[0]), "the engine outlived the command"
    report = run(path, asked(), of)
    assert (report.models[0].kept, report.models[0].ok) == (len(kept), N - len(kept))
    uninterrupted = {row["prompt_id"]: row for row in rows(whole) if row["model"] == "first"}
    assert {row["prompt_id"]: row for row in rows(path)} == {
        question.prompt_id: uninterrupted[question.prompt_id] for question in asked()
    }


def _children(pid: int) -> list[int]:
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii")
    return [int(each) for each in text.split()]


def _alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"
