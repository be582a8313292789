"""One signal for several who ask about the same answers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from rbx.errors import ServerError
from rbx.label.answer import Answer, Signal, Verdict
from rbx.label.signals import once
from rbx.label.signals.by_source import BySource
from rbx.label.signals.once import Once
from tests.label.signals.answers import answered


class Slow:
    """Says how often it was asked about an answer; fails for the response ``bad``, raises for ``gone``."""

    name = "slow"
    digest = "d"
    batch = 2
    concurrency = 2

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.running = self.most = self.closed = 0

    async def score(self, answers: Sequence[Answer]) -> list[Verdict]:
        self.running += 1
        self.most = max(self.most, self.running)
        self.asked += [answer.response for answer in answers]
        await asyncio.sleep(0.001)
        self.running -= 1
        if any(answer.response == "gone" for answer in answers):
            raise ServerError("the judge has gone")
        return [
            Verdict(None, "judge_failed")
            if answer.response == "bad"
            else Verdict(len(answer.response) / 10, "ok")
            for answer in answers
        ]

    async def alive(self) -> bool:
        return True

    async def close(self) -> None:
        self.closed += 1


def distinct(response: str, model: str = "model") -> Answer:
    answer = answered(response)
    return answer._replace(question=answer.question._replace(prompt_id=response), model=model)


def test_a_metric_and_two_by_source_ask_once_together() -> None:
    inner = Slow()
    signal = Once(inner)
    askers: list[Signal] = [signal, BySource("q", {"some": signal}, None), BySource("r", {}, signal)]
    answers = [distinct("x" * number) for number in range(1, 9)]

    async def run() -> list[list[Verdict]]:
        return list(
            await asyncio.gather(
                *(each.score(answers[at : at + 2]) for at in range(0, 8, 2) for each in askers)
            )
        )

    found = asyncio.run(run())
    assert sorted(inner.asked) == [answer.response for answer in answers]
    assert inner.most == 2  # its own bound, whoever asks
    for at, verdicts in zip((at for at in range(0, 8, 2) for _ in askers), found, strict=True):
        assert [verdict.score for verdict in verdicts] == [(at + 1) / 10, (at + 2) / 10]


def test_models_prompts_and_texts_are_told_apart() -> None:
    inner = Slow()
    signal = Once(inner)
    one = distinct("a", "one")
    answers = [one, distinct("a", "two"), distinct("bb", "one"), one._replace(response="ccc"), one]
    assert [verdict.score for verdict in asyncio.run(signal.score(answers))] == [0.1, 0.1, 0.2, 0.3, 0.1]
    assert inner.asked == ["a", "a", "bb", "ccc"]


def test_a_failed_judgement_is_shared_but_asked_for_again_later() -> None:
    inner = Slow()
    signal = Once(inner)
    bad = [distinct("bad")]

    async def run() -> tuple[list[list[Verdict]], list[Verdict]]:
        return list(await asyncio.gather(signal.score(bad), signal.score(bad))), await signal.score(bad)

    together, later = asyncio.run(run())
    assert together == [[Verdict(None, "judge_failed")]] * 2
    assert later == [Verdict(None, "judge_failed")]
    assert inner.asked == ["bad", "bad"]


def test_an_error_reaches_all_who_ask_and_leaves_nobody_waiting() -> None:
    inner = Slow()
    signal = Once(inner)
    gone = [distinct("gone")]

    async def run() -> list[list[Verdict] | BaseException]:
        first = await asyncio.gather(signal.score(gone), signal.score(gone), return_exceptions=True)
        again = await asyncio.gather(
            signal.score(gone), signal.score([distinct("x")]), return_exceptions=True
        )
        return [*first, *again]

    one, two, three, four = asyncio.run(run())
    assert isinstance(one, ServerError)
    assert isinstance(two, ServerError)
    assert isinstance(three, ServerError)
    assert inner.asked.count("gone") == 3  # each who asked heard it from the judge
    assert four == [Verdict(0.1, "ok")]


def test_who_waits_asks_for_itself_where_the_first_was_cancelled() -> None:
    inner = Slow()
    signal = Once(inner)

    async def run() -> list[Verdict]:
        first = asyncio.create_task(signal.score([distinct("x"), distinct("yy")]))
        await asyncio.sleep(0)
        second = asyncio.create_task(signal.score([distinct("yy")]))
        await asyncio.sleep(0)
        first.cancel()
        return await second

    assert asyncio.run(run()) == [Verdict(0.2, "ok")]
    assert inner.asked == ["x", "yy", "yy"]


def test_a_cancelled_asker_does_not_spoil_the_answer() -> None:
    inner = Slow()
    signal = Once(inner)

    async def run() -> list[Verdict]:
        task = asyncio.create_task(signal.score([distinct("x")]))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return await signal.score([distinct("x")])

    assert asyncio.run(run()) == [Verdict(0.1, "ok")]


def test_the_verdicts_kept_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(once, "KEPT_VERDICTS", 2)
    inner = Slow()
    signal = Once(inner)

    async def run() -> None:
        for response in ("a", "bb", "ccc", "ccc", "a"):
            await signal.score([distinct(response)])

    asyncio.run(run())
    assert inner.asked == ["a", "bb", "ccc", "a"]


def test_it_is_the_signal_it_holds_in_all_else() -> None:
    inner = Slow()
    signal = Once(inner)
    assert (signal.name, signal.digest, signal.batch, signal.concurrency) == ("slow", "d", 2, 2)
    asyncio.run(signal.close())
    assert inner.closed == 1
