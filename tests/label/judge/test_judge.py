"""A judge over a live server: what it is asked, and what becomes of every kind of reply."""

from __future__ import annotations

import asyncio
import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rbx.errors import ConfigError
from rbx.label.answer import Signal, Verdict
from rbx.label.judge.build import build_judge
from rbx.label.judge.judge import Judge
from rbx.label.judge.reply import Reply
from rbx.label.judge.rubric import QUALITY, SAFETY
from tests.label.judge.judging import HARMFUL, QUESTION, answer_to, judge_at, scored, spec, verdict, verdicts
from tests.label.judge.test_reply import GOOD, ILL_FORMED
from tests.label.scripted_server import Reply as Served
from tests.label.scripted_server import Rule, answer, prompt_of, scripted


def replying(text: str | None, finish_reason: str = "stop") -> Rule:
    return lambda path, body: answer(text, finish_reason=finish_reason)


def judging(score: object) -> Rule:
    return replying(json.dumps({"reason": "as scripted", "score": score}))


@pytest.mark.parametrize(
    ("written", "score"), [(0, 0.0), (1, 0.1), (7, 0.7), (10, 1.0), (2.5, 0.25), ("7", 0.7)]
)
def test_a_score_is_a_tenth_of_what_the_judge_gives(written: object, score: float) -> None:
    found, server = verdict(judging(written))
    assert found == Verdict(score, "ok", "as scripted")
    assert len(server.seen) == 1


@pytest.mark.parametrize(("text", "why"), ILL_FORMED.values(), ids=ILL_FORMED)
def test_an_ill_formed_reply_is_a_failed_judgement_with_its_text(text: str, why: str) -> None:
    found, server = verdict(replying(text), reply_attempts=1)
    assert (found.score, found.status, found.unreached) == (None, "judge_failed", False)
    assert found.raw is not None
    assert text.startswith(found.raw)
    assert found.raw or not text
    assert why in (found.reason or "")
    assert len(server.seen) == 1


def test_a_cut_reply_and_one_without_content_fail() -> None:
    found, _ = verdict(replying(GOOD, "length"))
    assert (found.score, found.status, found.raw) == (None, "judge_failed", GOOD)
    found, _ = verdict(replying(None))
    assert (found.score, found.status, found.raw) == (None, "judge_failed", "")


def test_a_judge_gets_its_reply_attempts_and_no_more() -> None:
    replies = ["well,", "let me see", GOOD]
    found, server = verdict(lambda path, body: answer(replies.pop(0)), reply_attempts=3)
    assert (found.score, len(server.seen)) == (0.7, 3)
    found, server = verdict(replying("well,"), reply_attempts=3)
    assert (found.status, found.raw, len(server.seen)) == ("judge_failed", "well,", 3)


@pytest.mark.parametrize("status", [400, 401, 404, 413, 422, 429, 500, 503])
def test_a_refusal_fails_and_says_whether_the_judge_was_reached(status: int) -> None:
    refused = Served({"error": {"message": "maximum context length is 4096"}}, status=status)
    found, server = verdict(lambda path, body: refused, reply_attempts=3)
    assert (found.score, found.status, found.raw) == (None, "judge_failed", None)
    assert f"HTTP {status}" in (found.reason or "")
    assert found.unreached == (status not in (400, 413, 422))
    assert len(server.seen) == 1  # the endpoint's attempts, not multiplied by those for a reply


def test_a_judge_that_never_answers_is_left_at_the_deadline() -> None:
    found, _ = verdicts(
        lambda path, body: Served(hang=True), [answer_to()] * 3, endpoint={"deadline_s": 0.2, "attempts": 2}
    )
    assert [(each.score, each.status, each.unreached) for each in found] == [(None, "judge_failed", True)] * 3
    assert "no answer within 0.2 s" in (found[0].reason or "")


def test_a_server_that_is_gone_is_told_apart_from_a_failed_judgement() -> None:
    with scripted(judging(7)) as server:
        judge = judge_at(server)
    (found,) = asyncio.run(scored(judge, [answer_to()]))
    assert (found.score, found.status, found.unreached) == (None, "judge_failed", True)


def test_failures_of_the_longest_prompts_stay_failures() -> None:
    def rule(path: str, body: dict[str, object]) -> Served:
        return Served(status=429) if len(prompt_of(body)) > 4000 else answer(GOOD)

    answers = [answer_to(QUESTION._replace(prompt="why? " * (20 * n))) for n in range(1, 21)]
    found, _ = verdicts(rule, answers)
    lost = [each.status == "judge_failed" for each in found]
    assert any(lost)
    assert not all(lost)
    assert lost == sorted(lost)
    assert all((each.score is None) == failed for each, failed in zip(found, lost, strict=True))


def test_no_more_questions_are_under_way_than_the_endpoint_may_have() -> None:
    slow = answer(GOOD, delay_s=0.02)
    found, server = verdicts(lambda path, body: slow, [answer_to()] * 40, endpoint={"concurrency": 5})
    assert [each.score for each in found] == [0.7] * 40
    assert server.most_at_once == 5


def test_an_ordinary_prompt_is_judged_against_its_reference() -> None:
    _, server = verdict(judging(7))
    prompt = prompt_of(server.seen[0][1])
    for text in (*QUALITY.evaluation_steps, QUESTION.prompt, "It is four.", QUESTION.reference):
        assert text is not None
        assert text in prompt
    assert SAFETY.criteria not in prompt


def test_a_harmful_prompt_is_judged_by_safety_alone() -> None:
    asked = HARMFUL._replace(reference="a reference that no judge sees")
    found, server = verdict(judging(10), answer_to(asked, "I can't help with that."))
    assert found.score == 1.0
    prompt = prompt_of(server.seen[0][1])
    for text in (*SAFETY.evaluation_steps, HARMFUL.prompt, "I can't help with that."):
        assert text in prompt
    assert QUALITY.criteria not in prompt
    assert "a reference that no judge sees" not in prompt
    assert "Expected Output" not in prompt


@pytest.mark.parametrize("reference", [None, "", "  \n"])
def test_without_a_reference_nobody_is_asked(reference: str | None) -> None:
    found, server = verdict(judging(7), answer_to(QUESTION._replace(reference=reference)))
    assert found == Verdict(None, "missing", "no reference to judge against")
    assert server.seen == []


def test_long_texts_are_cut_and_the_cut_is_kept() -> None:
    asked = QUESTION._replace(prompt="i" * 101, reference="r" * 102)
    found, server = verdict(judging(0), answer_to(asked, "o" * 103), cut_characters=100)
    assert (found.score, found.cut) == (0.0, "input,output,reference")
    prompt = prompt_of(server.seen[0][1])
    for letter in "ior":
        assert letter * 100 in prompt
        assert letter * 101 not in prompt
    whole, _ = verdict(judging(0), answer_to(QUESTION._replace(prompt="i" * 100)), cut_characters=100)
    assert whole.cut is None
    failed, _ = verdict(replying("prose"), answer_to(asked), cut_characters=100)
    assert (failed.status, failed.cut) == ("judge_failed", "input,reference")
    safe, _ = verdict(judging(0), answer_to(HARMFUL._replace(reference="r" * 102)), cut_characters=100)
    assert safe.cut is None


def test_the_request_holds_the_parameters_of_the_spec() -> None:
    _, server = verdict(
        judging(7),
        temperature=0.5,
        max_tokens=99,
        response_format="json_schema",
        endpoint={"served_name": "llama"},
    )
    path, body = server.seen[0]
    assert path == "/v1/chat/completions"
    assert [message["role"] for message in body["messages"]] == ["user"]
    assert (body["model"], body["temperature"], body["max_tokens"]) == ("llama", 0.5, 99)
    schema = body["response_format"]["json_schema"]["schema"]
    assert set(schema["required"]) == {"reason", "score"}
    _, server = verdict(judging(7), response_format="json_object")
    assert server.seen[0][1]["response_format"] == {"type": "json_object"}
    _, server = verdict(judging(7))
    assert "response_format" not in server.seen[0][1]
    assert server.seen[0][1]["model"] == "some-judge"


def test_text_that_deepeval_would_take_for_a_file_is_text() -> None:
    found, server = verdict(
        judging(7), answer_to(response="See [DEEPEVAL:IMAGE:pyproject.toml] {{ 7 * 7 }}.")
    )
    assert found.score == 0.7
    assert "See [DEEPEVAL :IMAGE:pyproject.toml] {{ 7 * 7 }}." in prompt_of(server.seen[0][1])


def test_a_text_that_utf8_cannot_hold_is_judged() -> None:
    found, server = verdict(judging(7), answer_to(response="half a \ud83d face"))
    assert found.score == 0.7
    assert "half a ? face" in prompt_of(server.seen[0][1])


def test_a_key_is_read_from_the_environment_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUDGE_KEY", "sk-secret")
    leak = Served({"error": "sk-secret is wrong"}, status=401)
    found, server = verdict(lambda path, body: leak, endpoint={"api_key_env": "JUDGE_KEY"})
    assert server.headers[0]["Authorization"] == "Bearer sk-secret"
    assert "sk-secret" not in str(found)
    monkeypatch.delenv("JUDGE_KEY")
    with pytest.raises(ConfigError, match="JUDGE_KEY is not set"):
        verdict(judging(7), endpoint={"api_key_env": "JUDGE_KEY"})


class Saying:
    """Replies with one text."""

    def __init__(self, text: str) -> None:
        self.identity = {"kind": "test"}
        self._text = text

    async def ask(self, prompt: str) -> Reply:
        return Reply(self._text)

    async def alive(self) -> bool:
        return True

    async def close(self) -> None:
        pass


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(
    st.text()
    | st.binary().map(lambda raw: raw.decode("utf-8", "replace"))
    | st.tuples(st.floats() | st.integers() | st.text() | st.none(), st.text()).map(
        lambda pair: json.dumps({"score": pair[0], "reason": pair[1]})
    )
)
def test_whatever_the_judge_writes_there_is_one_verdict(text: str) -> None:
    judge = Judge("quality", Saying(text), concurrency=1, cut_characters=100, reply_attempts=1)
    (found,) = asyncio.run(scored(judge, [answer_to()]))
    if found.score is None:
        assert (found.status, found.unreached) == ("judge_failed", False)
        assert found.raw == text[: len(found.raw or "")]
    else:
        assert found.status == "ok"
        assert 0.0 <= found.score <= 1.0


def test_a_judge_is_a_signal_of_one_answer_a_call() -> None:
    judge: Signal = build_judge(spec(endpoint={"concurrency": 9}), "quality")
    assert (judge.name, judge.batch, judge.concurrency) == ("quality", 1, 9)
