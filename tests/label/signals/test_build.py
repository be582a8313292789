"""From a spec's list of signals to signals."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from rbx.config.labelling import JudgeSpec, LabelSource
from rbx.errors import ConfigError, UsageError
from rbx.label.answer import Answer, Signal, Verdict
from rbx.label.signals.build import build_signals
from tests.label.signals.answers import answered, scored


class Judge:
    batch = 1
    concurrency = 3

    def __init__(self, spec: JudgeSpec, name: str) -> None:
        self.name = name
        self.digest = f"judge {spec.name}"

    async def score(self, answers: Sequence[Answer]) -> list[Verdict]:
        return [Verdict(0.5, "ok")] * len(answers)

    async def alive(self) -> bool:
        return True

    async def close(self) -> None:
        pass


def spec(signals: list[dict[str, Any]], max_tokens: int = 1024) -> LabelSource:
    endpoint = {"url": "http://127.0.0.1:1/v1"}
    return LabelSource.model_validate(
        {
            "kind": "label",
            "prompts": {"sources": [{"kind": "gsm8k"}]},
            "generation": {"max_tokens": max_tokens},
            "models": [{"name": "m", "endpoint": endpoint}],
            "judges": [{"name": "strict", "model": "j", "endpoint": endpoint}],
            "signals": signals,
            "quality": signals[0]["name"],
        }
    )


def built(signals: list[dict[str, Any]], max_tokens: int = 1024) -> list[Signal]:
    return build_signals(spec(signals, max_tokens), max_tokens, Judge)


ALL: list[dict[str, Any]] = [
    {
        "kind": "by_source",
        "name": "quality",
        "rules": {"gsm8k": "final", "squad": "f1", "mbpp": "tests"},
        "otherwise": "judged",
    },
    {"kind": "judge", "name": "judged", "judge": "strict"},
    {"kind": "numeric", "name": "final", "sources": ["gsm8k"]},
    {"kind": "exact", "name": "exact"},
    {"kind": "token_f1", "name": "f1"},
    {"kind": "similarity", "name": "meaning"},
    {"kind": "code", "name": "tests", "run_untrusted_code": True},
    {"kind": "length", "name": "length"},
    {"kind": "length_bucket", "name": "bucket"},
]


def test_every_kind_is_built_in_the_order_of_the_spec() -> None:
    signals = built(ALL)
    assert [signal.name for signal in signals] == [each["name"] for each in ALL]
    assert len({signal.digest for signal in signals}) == len(ALL)
    assert all(signal.batch >= 1 and signal.concurrency >= 1 for signal in signals)
    answers = [
        answered("So 18", "#### 18", source="gsm8k", output_tokens=512),
        answered("So 18", "18 of them", source="squad", output_tokens=512),
        answered("x = 1", "x", tests="assert x == 1", source="mbpp", output_tokens=512),
        answered("hello", "hi", source="lmsys", output_tokens=512),
    ]
    scores = {signal.name: [each.score for each in scored(signal, answers)] for signal in signals}
    assert scores["quality"] == [1.0, 0.4, 1.0, 0.5]
    assert scores["judged"] == [0.5] * 4
    assert scores["final"] == [1.0, None, None, None]
    assert scores["exact"] == [0.0] * 4
    assert scores["tests"] == [None, None, 1.0, None]
    assert scores["length"] == [0.5] * 4
    assert scores["bucket"] == [8 / 15] * 4
    assert all(score is not None and 0.5 < score < 1 for score in scores["meaning"])


def test_a_judge_that_signals_by_source_need_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    async def score(self: Judge, answers: Sequence[Answer]) -> list[Verdict]:
        asked.extend(answer.question.source for answer in answers)
        return [Verdict(0.5, "ok")] * len(answers)

    monkeypatch.setattr(Judge, "score", score)
    signals = built(
        [
            {"kind": "judge", "name": "judged", "judge": "strict"},
            {"kind": "by_source", "name": "one", "rules": {"a": "judged"}},
            {"kind": "by_source", "name": "two", "rules": {"b": "judged"}, "otherwise": "judged"},
        ]
    )
    answer = answered("x", source="a")

    async def run() -> list[list[Verdict]]:
        return list(await asyncio.gather(*(signal.score([answer]) for signal in signals)))

    assert asyncio.run(run()) == [[Verdict(0.5, "ok")]] * 3
    assert asked == ["a"]


def test_sources_limit_any_kind() -> None:
    for each in ALL:
        (signal,) = [
            one for one in built([{**one, "sources": ["gsm8k"]} for one in ALL]) if one.name == each["name"]
        ]
        assert scored(signal, [answered("x", "y", source="lmsys")]) == [
            Verdict(None, "missing", "not scored: source lmsys")
        ]


def test_lengths_are_of_the_generations_limit() -> None:
    (signal,) = built([{"kind": "length", "name": "length"}], max_tokens=256)
    assert scored(signal, [answered("x", output_tokens=64)])[0].score == 0.25


def test_code_is_refused_unless_allowed() -> None:
    with pytest.raises(ConfigError, match="run_untrusted_code"):
        built([{"kind": "code", "name": "tests"}])


def test_an_unknown_encoder_is_refused() -> None:
    with pytest.raises(UsageError, match="unknown encoder 'bert'"):
        built([{"kind": "similarity", "name": "meaning", "encoder": "bert"}])
