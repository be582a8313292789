"""A judge's digest changes with all that decides a score, and with nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rbx.label.judge import geval, judge
from rbx.label.judge.build import build_judge
from rbx.label.judge.geval import PLACEHOLDERS, Texts, prompt_text
from rbx.label.judge.rubric import QUALITY, RUBRICS, SAFETY
from tests.label.judge.judging import QUESTION, answer_to, spec, verdict
from tests.label.scripted_server import answer, prompt_of


def digest(**more: Any) -> str:
    return build_judge(spec(**more), "quality").digest


PLAIN = digest()


@pytest.mark.parametrize(
    "change",
    [
        {"model": "another-judge"},
        {"temperature": 0.1},
        {"max_tokens": 256},
        {"response_format": "json_object"},
        {"response_format": "json_schema"},
        {"cut_characters": 1024},
        {"endpoint": {"served_name": "another-name"}},
    ],
)
def test_what_decides_a_score_decides_the_digest(change: dict[str, Any]) -> None:
    assert digest(**change) != PLAIN


@pytest.mark.parametrize(
    "change",
    [
        {"url": "http://elsewhere:9000/v1"},
        {"name": "other"},
        {"reply_attempts": 5},
        {"endpoint": {"concurrency": 3, "deadline_s": 1.0, "attempts": 9, "backoff_s": 2.0}},
        {"endpoint": {"served_name": "some-judge"}},
    ],
)
def test_what_does_not_decide_a_score_leaves_it(change: dict[str, Any]) -> None:
    assert digest(**change) == PLAIN


def test_a_new_version_of_the_steps_gives_a_new_digest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judge, "STEPS_VERSION", "next")
    assert digest() != PLAIN


@pytest.mark.parametrize("at", [0, 1])
def test_a_new_template_of_deepeval_gives_a_new_digest(monkeypatch: pytest.MonkeyPatch, at: int) -> None:
    original: Callable[..., Any] = geval._metric

    def reworded(rubric: Any, model: Any, **more: Any) -> Any:
        metric = original(rubric, model, **more)
        if rubric is RUBRICS[at]:
            render = metric._get_prompt
            metric._get_prompt = lambda *args, **kwargs: render(*args, **kwargs) + "\nThink first."
        return metric

    monkeypatch.setattr(geval, "_metric", reworded)
    assert digest() != PLAIN


def test_the_text_in_the_digest_is_the_text_that_is_sent() -> None:
    asked = QUESTION._replace(prompt=PLACEHOLDERS[0], reference=PLACEHOLDERS[2])
    for rubric, harmful in ((QUALITY, False), (SAFETY, True)):
        _, server = verdict(
            lambda path, body: answer('{"reason": "", "score": 1}'),
            answer_to(asked._replace(is_harmful=harmful), PLACEHOLDERS[1]),
        )
        assert prompt_of(server.seen[0][1]) == prompt_text(rubric)
        assert all(text in prompt_text(rubric) for text in Texts(*PLACEHOLDERS)[: 3 - harmful])
