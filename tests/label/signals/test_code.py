"""The share of tests that an answer's code passes."""

from __future__ import annotations

import asyncio
import errno
import logging

import pytest

from rbx.config.labelling import CodeSignal
from rbx.errors import ConfigError
from rbx.label.answer import Verdict
from rbx.label.signals import code
from rbx.label.signals.code import CodePassRate
from rbx.label.signals.sandbox import Limits, Outcome, run_test
from tests.label.signals.answers import answered, scored, verdict

TESTS = "assert f(1) == 2\nassert f(2) == 4\nassert f(3) == 6\ndef test_zero():\n    assert f(0) == 0\n"


def signal(**more: object) -> CodePassRate:
    spec = {"kind": "code", "name": "tests", "run_untrusted_code": True, "timeout_s": 20.0, **more}
    return CodePassRate(CodeSignal.model_validate(spec))


def test_nothing_is_run_unless_it_is_allowed() -> None:
    with pytest.raises(ConfigError, match=r"signal tests: kind code runs Python.*run_untrusted_code: true"):
        CodePassRate(CodeSignal(kind="code", name="tests"))


@pytest.mark.parametrize(
    ("response", "score", "reason"),
    [
        ("```python\ndef f(x):\n    return 2 * x\n```", 1.0, "4 of 4 tests passed"),
        ("def f(x):\n    return 2 * x", 1.0, "4 of 4 tests passed"),
        (
            "Sure!\n```python\ndef f(x):\n    return min(2 * x, 4)\n```\nHope it helps",
            0.75,
            "3 of 4 tests passed; line 3 of the tests: AssertionError",
        ),
        (
            "```python\ndef f(x):\n    return x / 0\n```",
            0.0,
            "0 of 4 tests passed; line 1 of the tests: ZeroDivisionError",
        ),
        (
            "```python\ndef g(x):\n    return 2 * x\n```",
            0.0,
            "0 of 4 tests passed; line 1 of the tests: NameError",
        ),
        ("```python\ndef f(x):\n    return (2 *\n```", 0.0, "the answer's code fails: SyntaxError"),
        ("I can't write code.", 0.0, "the answer's code fails: SyntaxError"),
        (
            "import os\ndef f(x):\n    os._exit(0) if x == 2 else None\n    return 2 * x",
            0.75,
            "3 of 4 tests passed; line 2 of the tests: the process ended early",
        ),
    ],
)
def test_score_and_reason(response: str, score: float, reason: str) -> None:
    assert verdict(signal(), answered(response, tests=TESTS)) == Verdict(score, "ok", reason)


@pytest.mark.parametrize(
    ("tests", "reason"),
    [
        (None, "no tests"),
        (" \n", "no tests"),
        ("assert f(", "the tests are not Python: line 1"),
        ("x = 1", "the tests hold no assert, no test_ function and no call"),
    ],
)
def test_without_tests_there_is_no_score(tests: str | None, reason: str) -> None:
    assert verdict(signal(), answered("x = 1", tests=tests)) == Verdict(None, "missing", reason)


def test_an_endless_answer_is_ended_once_and_not_for_each_test(monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[str] = []

    async def counted(answer: str, test: str, limits: Limits) -> Outcome | None:
        runs.append(answer)
        return await run_test(answer, test, limits)

    monkeypatch.setattr(code, "run_test", counted)
    rated = verdict(signal(timeout_s=4.0), answered("while True:\n    pass", tests=TESTS))
    assert rated == Verdict(0.0, "ok", "the answer's code fails: time ran out")
    assert runs.count("while True:\n    pass") == 1


def test_answers_in_a_batch_do_not_meet() -> None:
    wrong = answered("import builtins\nbuiltins.abs = None\ndef f(x):\n    return 0", tests=TESTS)
    right = answered("def f(x):\n    return abs(2 * x)", tests=TESTS)
    together = scored(signal(), [wrong, right, wrong])
    assert [each.score for each in together] == [0.25, 1.0, 0.25]
    assert together == [verdict(signal(), each) for each in (wrong, right, wrong)]


def test_calls_run_side_by_side() -> None:
    rated = signal()

    async def run() -> list[list[Verdict]]:
        answers = [answered(f"def f(x):\n    return {factor} * x", tests=TESTS) for factor in (2, 3)]
        return list(await asyncio.gather(*(rated.score([answer]) for answer in answers)))

    assert [each.score for (each,) in asyncio.run(run())] == [1.0, 0.25]


def test_limits_under_which_nothing_runs_are_refused_and_not_scored() -> None:
    with pytest.raises(ConfigError, match="can't be run here within timeout_s: 20 and memory_mib: 1 "):
        verdict(signal(memory_mib=1), answered("def f(x):\n    return 2 * x", tests=TESTS))


def test_a_sandbox_that_does_not_start_gives_no_score(monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(answer: str, test: str, limits: Limits) -> Outcome | None:
        return Outcome(True, None, frozenset()) if "dataclasses" in answer else None

    monkeypatch.setattr(code, "run_test", broken)
    reason = "the process for the answer's code did not start"
    assert verdict(signal(), answered("x = 1", tests=TESTS)) == Verdict(None, "missing", reason)


def test_a_system_without_room_for_a_process_stops_the_scoring(monkeypatch: pytest.MonkeyPatch) -> None:
    async def full(answer: str, test: str, limits: Limits) -> Outcome | None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(code, "run_test", full)
    with pytest.raises(ConfigError, match="can be started: No space left on device; make room"):
        verdict(signal(), answered("x = 1", tests=TESTS))


def test_what_is_not_isolated_is_said_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def bare(answer: str, test: str, limits: Limits) -> Outcome | None:
        return Outcome(True, None, frozenset({"processes", "shared-memory"}))

    monkeypatch.setattr(code, "run_test", bare)
    with caplog.at_level(logging.WARNING):
        scored(signal(), [answered("x = 1", tests=TESTS)] * 3)
    assert [record.getMessage() for record in caplog.records] == [
        "signal tests: this system does not let rbx shut off files and network from the answers' code"
    ]


def test_the_digest_tells_limits_apart() -> None:
    kinds = [signal(), signal(timeout_s=5.0), signal(memory_mib=256), signal(concurrency=7)]
    assert len({each.digest for each in kinds}) == 3  # concurrency decides no score
    assert kinds[3].concurrency == 7
