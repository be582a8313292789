"""What is asked of a classifier, and what is made of every answer that it may give."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from rbx.config.classifier_service import ClassifierService
from rbx.errors import ConfigError, ServerError
from rbx.serve.classifier.client import MOST_BYTES, MOST_TEXTS, Classified, classify
from tests.serve.classifier.service import Answer, Service, documented, refusal, running


def by_number(text: str) -> tuple[str, float]:
    number = int(text.split()[-1])
    return ("even" if number % 2 == 0 else "odd", 0.5 + (number % 50) / 100)


@pytest.fixture
def service() -> Iterator[Service]:
    with running(by_number) as found:
        yield found


def ask(service: Service, texts: list[str], **fields: Any) -> list[Classified]:
    return classify(ClassifierService(url=service.url, **fields), texts)


def test_the_documented_question_in_batches_that_the_service_takes(service: Service) -> None:
    texts = [f"number {k}" for k in range(2 * MOST_TEXTS + 5)]
    assert ask(service, texts) == [Classified(*by_number(text)) for text in texts]
    assert [len(each["texts"]) for each in service.asked] == [MOST_TEXTS, MOST_TEXTS, 5]
    assert {each["task_type"] for each in service.asked} == {"intent"}
    assert ask(service, []) == []


BAD_RESULTS: list[tuple[Any, str]] = [
    ({"category": "", "confidence": 0.5}, "without a category"),
    ({"category": None, "confidence": 0.5}, "without a category"),
    ({"confidence": 0.5}, "without a category"),
    ("math", "without a category"),
    ({"category": "x" * 201, "confidence": 0.5}, "without a category"),
    ({"category": "math"}, "no number from 0 to 1"),
    ({"category": "math", "confidence": "0.5"}, "no number from 0 to 1"),
    ({"category": "math", "confidence": True}, "no number from 0 to 1"),
    ({"category": "math", "confidence": 1.5}, "no number from 0 to 1"),
    ({"category": "math", "confidence": -0.1}, "no number from 0 to 1"),
    ({"category": "math", "confidence": float("nan")}, "no number from 0 to 1"),
]


@pytest.mark.parametrize(("result", "said"), BAD_RESULTS)
def test_one_bad_result_makes_no_answer(service: Service, result: Any, said: str) -> None:
    good = {"category": "math", "confidence": 0.9}
    service.answer = lambda texts: (200, json.dumps({"results": [good, result]}).encode())
    with pytest.raises(ServerError, match=said):
        ask(service, ["one 1", "two 2"])


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (refusal(500, "UNIFIED_CLASSIFICATION_ERROR", "Failed to process"), "HTTP 500: Failed to process"),
        (refusal(503, "UNIFIED_CLASSIFIER_UNAVAILABLE", "no\x1b[31m models"), r"HTTP 503: no \[31m models"),
        ((502, b"<html>bad gateway</html>"), "HTTP 502: <html>"),
        ((302, b""), "HTTP 302"),
        ((200, b"<html>hello</html>"), "no JSON"),
        ((200, b"[" * 100_000), "no JSON"),
        ((200, b"[]"), "no list of results for 1"),
        ((200, b'{"results": null}'), "no list of results for 1"),
        ((200, documented([])), "0 results for 1"),
        ((200, documented([{"category": "a", "confidence": 1}] * 2)), "2 results for 1"),
        ((200, b" " * (MOST_BYTES + 1)), "more than"),
    ],
    ids=str,
)
def test_whatever_is_no_answer_is_an_error_that_names_the_service(
    service: Service, answer: Answer, said: str
) -> None:
    service.answer = lambda texts: answer
    with pytest.raises(ServerError, match=said) as caught:
        ask(service, ["one 1"])
    assert service.url in str(caught.value)
    assert "\x1b" not in str(caught.value)


def test_a_service_that_keeps_silent_is_given_up(service: Service) -> None:
    service.quiet = threading.Event()
    with pytest.raises(ServerError, match=r"did not answer 2 prompts within 0\.1 s"):
        ask(service, ["one 1", "two 2"], timeout_s=0.05)


def test_so_is_one_that_never_ends_its_answer(service: Service) -> None:
    service.stuck = threading.Event()
    with pytest.raises(ServerError, match=r"did not answer 1 prompts within 0\.2 s"):
        ask(service, ["one 1"], timeout_s=0.2)


def test_nobody_there_is_told_with_what_to_do() -> None:
    with running(by_number) as gone:
        url = gone.url
    with pytest.raises(ServerError, match=r"can't be reached: ConnectError; is vllm-sr running there\?"):
        classify(ClassifierService(url=url), ["one 1"])


def test_the_key_comes_from_the_environment_and_goes_nowhere_else(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("THEIR_KEY", "sesame-open")
    ask(service, ["one 1"], api_key_env="THEIR_KEY")
    assert service.headers[-1]["authorization"] == "Bearer sesame-open"
    service.answer = lambda texts: refusal(401, "UNAUTHORIZED", "no such key: Bearer sesame-open")
    with pytest.raises(ServerError, match="HTTP 401") as caught:
        ask(service, ["one 1"], api_key_env="THEIR_KEY")
    assert "sesame" not in str(caught.value)
    monkeypatch.delenv("THEIR_KEY")
    with pytest.raises(ConfigError, match="THEIR_KEY is not set"):
        ask(service, ["one 1"], api_key_env="THEIR_KEY")
