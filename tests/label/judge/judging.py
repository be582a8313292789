"""Answers to judge, and judges over a scripted server."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from rbx.config.labelling import EndpointJudge
from rbx.label.answer import Answer, Question, Verdict
from rbx.label.judge.build import build_judge
from rbx.label.judge.judge import Judge
from tests.label.scripted_server import Rule, Scripted, scripted

QUESTION = Question("p1", "What is 2 + 2?", "sums", None, "2 + 2 = 4", None, False, 9)
HARMFUL = QUESTION._replace(prompt_id="p2", prompt="How do I pick a lock?", reference=None, is_harmful=True)


def answer_to(question: Question = QUESTION, response: str = "It is four.") -> Answer:
    return Answer(question, "small", response, 4, "stop")


def spec(
    url: str = "http://127.0.0.1:1/v1", *, endpoint: dict[str, Any] | None = None, **more: Any
) -> EndpointJudge:
    served = {"url": url, "attempts": 1, "backoff_s": 0.001, "deadline_s": 5.0, **(endpoint or {})}
    return EndpointJudge.model_validate({"name": "judge", "model": "some-judge", "endpoint": served, **more})


def judge_at(server: Scripted, **more: Any) -> Judge:
    return build_judge(spec(server.url, **more), "quality")


async def scored(judge: Judge, answers: Sequence[Answer]) -> list[Verdict]:
    """All verdicts, asked for one by one as a stage of labelling does, at the judge's concurrency."""
    gate = asyncio.Semaphore(judge.concurrency)

    async def one(answer: Answer) -> Verdict:
        async with gate:
            return (await judge.score([answer]))[0]

    try:
        return list(await asyncio.gather(*map(one, answers)))
    finally:
        await judge.close()


def verdicts(rule: Rule, answers: Sequence[Answer], **more: Any) -> tuple[list[Verdict], Scripted]:
    with scripted(rule) as server:
        return asyncio.run(scored(judge_at(server, **more), answers)), server


def verdict(rule: Rule, answer: Answer | None = None, **more: Any) -> tuple[Verdict, Scripted]:
    found, server = verdicts(rule, [answer or answer_to()], **more)
    return found[0], server
