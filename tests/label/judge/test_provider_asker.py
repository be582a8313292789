"""Judges behind DeepEval's own model classes."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from rbx.config.labelling import ProviderJudge
from rbx.errors import ConfigError, MissingExtraError
from rbx.label.answer import Verdict
from rbx.label.judge.build import build_judge
from rbx.label.judge.judge import Judge
from rbx.label.judge.provider_asker import CLASSES, LIBRARIES
from tests.label.judge.judging import HARMFUL, answer_to, scored
from tests.label.judge.test_reply import GOOD, ILL_FORMED
from tests.label.scripted_server import Reply, Rule, Scripted, answer, prompt_of, scripted

KEY = "sk-not-a-real-key"


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("OPENROUTER_API_KEY", KEY)
    monkeypatch.setenv("DEEPEVAL_RETRY_MAX_ATTEMPTS", "1")
    monkeypatch.delenv("TEMPERATURE", raising=False)


def judge(provider: str = "openai", options: dict[str, Any] | None = None, **more: Any) -> Judge:
    document = {"kind": "deepeval", "name": "judge", "provider": provider, "model": "gpt-4o", **more}
    return build_judge(ProviderJudge.model_validate({**document, "options": options or {}}), "quality")


def verdict(rule: Rule, provider: str = "openai", **more: Any) -> tuple[Verdict, Scripted]:
    with scripted(rule) as server:
        asked = judge(provider, {"base_url": server.url}, **more)
        return asyncio.run(scored(asked, [answer_to()]))[0], server


@pytest.mark.parametrize("provider", ["openai", "openrouter"])
def test_a_provider_judges_with_its_key_from_the_environment(provider: str) -> None:
    found, server = verdict(lambda path, body: answer(GOOD), provider)
    assert found == Verdict(0.7, "ok", "right")
    assert server.headers[0]["Authorization"] == f"Bearer {KEY}"
    assert server.seen[0][1]["model"] == "gpt-4o"
    assert server.seen[0][1]["temperature"] == 0.0


@pytest.mark.parametrize(("text", "why"), ILL_FORMED.values(), ids=ILL_FORMED)
def test_a_provider_is_read_as_strictly_as_any_server(text: str, why: str) -> None:
    found, _ = verdict(lambda path, body: answer(text), reply_attempts=1)
    assert (found.score, found.status, found.unreached) == (None, "judge_failed", False)
    assert found.raw is not None
    assert text.startswith(found.raw)
    assert why in (found.reason or "")


def test_a_score_cut_after_its_first_digit_is_not_completed() -> None:
    # DeepEval's own reading closes the brace and takes a 1.
    found, _ = verdict(lambda path, body: answer('{"reason": "perfect", "score": 1'), reply_attempts=1)
    assert (found.score, found.raw) == (None, '{"reason": "perfect", "score": 1')


@pytest.mark.parametrize(
    ("reply", "unreached"),
    [
        (Reply({"error": {"message": "too long"}}, status=400), False),
        (Reply({"error": {"message": f"{KEY} is unknown"}}, status=401), True),
        (Reply({"error": {"message": "slow down"}}, status=429), True),
        (Reply(b"gone", status=503), True),
        (Reply(b"<html>"), False),
        (Reply({"choices": []}), False),
        (Reply({"choices": None}), True),
        (Reply({"choices": [{"message": None}]}), False),
        (Reply({}), True),
    ],
)
def test_no_fault_of_a_provider_is_a_score_or_ends_the_run(reply: Reply, unreached: bool) -> None:
    found, _ = verdict(lambda path, body: reply)
    assert (found.score, found.status) == (None, "judge_failed")
    assert found.reason
    assert KEY not in found.reason
    assert found.unreached == unreached


def test_a_provider_that_never_answers_is_left_at_the_deadline() -> None:
    found, _ = verdict(lambda path, body: Reply(hang=True), deadline_s=0.3)
    assert found.status == "judge_failed"
    assert found.unreached
    assert "no answer within 0.3 s" in (found.reason or "")


def test_nobody_listening_is_unreached() -> None:
    (found,) = asyncio.run(scored(judge(options={"base_url": "http://127.0.0.1:1/v1"}), [answer_to()]))
    assert (found.score, found.status, found.unreached) == (None, "judge_failed", True)


def test_options_reach_the_provider() -> None:
    with scripted(lambda path, body: answer(GOOD)) as server:
        options = {"base_url": server.url, "temperature": 0.25, "generation_kwargs": {"max_tokens": 77}}
        asyncio.run(scored(judge(options=options), [answer_to(HARMFUL)]))
    assert (server.seen[0][1]["temperature"], server.seen[0][1]["max_tokens"]) == (0.25, 77)


def test_what_a_class_refuses_is_said_before_anything_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match=r"judge judge: DeepEval's OpenAIModel.*no_such_option"):
        judge(options={"no_such_option": 1})
    monkeypatch.delenv("OPENAI_API_KEY")
    with pytest.raises(ConfigError, match="OPENAI_API_KEY"):
        judge()


@pytest.mark.parametrize("provider", ["anthropic", "gemini", "ollama", "litellm"])
def test_a_provider_whose_library_is_missing_says_how_to_install_it(provider: str) -> None:
    library, package = LIBRARIES[provider]
    if importlib.util.find_spec(library.partition(".")[0]) is not None:
        pytest.skip(f"{library} is installed")
    with pytest.raises(MissingExtraError, match=f"judge judge: .*pip install {package}"):
        judge(provider)


def test_a_key_that_a_provider_echoes_reaches_nobody() -> None:
    found, _ = verdict(lambda path, body: answer(json.dumps({"score": 1, "reason": KEY})))
    assert found.reason == "***"
    found, _ = verdict(lambda path, body: answer(f"no {KEY}"), reply_attempts=1)
    assert found.raw == "no ***"


def test_every_provider_is_a_class_of_deepeval() -> None:
    from deepeval import models

    assert all(issubclass(getattr(models, name), models.DeepEvalBaseLLM) for name in CLASSES.values())


def test_the_digest_is_that_of_provider_model_and_options(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = judge().digest
    assert judge(options={"base_url": "http://127.0.0.1:1/v1"}).digest == plain
    assert judge(concurrency=3, deadline_s=1.0, reply_attempts=5).digest == plain
    others = [
        judge("openrouter").digest,
        judge(model="gpt-4.1").digest,
        judge(options={"temperature": 0.5}).digest,
        judge(options={"generation_kwargs": {"max_tokens": 77}}).digest,
        judge(cut_characters=100).digest,
    ]
    monkeypatch.setenv("TEMPERATURE", "0.9")
    assert len({plain, *others, judge().digest}) == len(others) + 2


@contextmanager
def ollama_server(content: str, seen: list[dict[str, Any]]) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            seen.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            message = {"role": "assistant", "content": content}
            raw = json.dumps({"model": "judge", "message": message, "done": True}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

        def log_message(self, *arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join(10.0)
        server.server_close()


@pytest.mark.parametrize(("text", "score"), [(GOOD, 0.7), ('{"reason": "right", "score": 11}', None)])
def test_ollama_judges(text: str, score: float | None) -> None:
    pytest.importorskip("ollama")
    seen: list[dict[str, Any]] = []
    with ollama_server(text, seen) as url:
        asked = judge("ollama", {"base_url": url}, model="qwen3:8b", reply_attempts=1)
        (found,) = asyncio.run(scored(asked, [answer_to()]))
    assert found.score == score
    assert found.status == ("ok" if score is not None else "judge_failed")
    assert "It is four." in prompt_of(seen[0])
    assert seen[0]["model"] == "qwen3:8b"
