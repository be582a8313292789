"""Share of a prompt's tests that an answer's code passes."""

from __future__ import annotations

import asyncio
import logging
import platform
from collections.abc import Sequence

from rbx.config.base import digest
from rbx.config.labelling import CodeSignal
from rbx.errors import ConfigError
from rbx.label.answer import Answer, Verdict, missing
from rbx.label.signals.answer_code import python_source
from rbx.label.signals.sandbox import ISOLATED, Limits, Outcome, run_test
from rbx.label.signals.single_tests import SingleTest, single_tests

_log = logging.getLogger(__name__)


class CodePassRate:
    """Tests passed / tests, each run with the answer's code in a process of its own (see ``sandbox``).

    Only Python's standard library can be imported. Where the answer's code itself fails, none of its
    tests is run and the score is 0. A test that an answer deceives from within the same interpreter,
    such as by returning an object that equals everything, counts as passed: no process limit prevents that.
    """

    batch = 1

    def __init__(self, spec: CodeSignal) -> None:
        """Raises ``ConfigError`` unless ``run_untrusted_code`` is set."""
        if not spec.run_untrusted_code:
            raise ConfigError(
                f"signal {spec.name}: kind code runs Python that a model wrote on this machine, in a limited "
                "process; set run_untrusted_code: true in the signal to allow that, or remove the signal"
            )
        self.name = spec.name
        self.concurrency = spec.concurrency
        self._limits = Limits(spec.timeout_s, spec.memory_mib << 20)
        self.digest = digest(
            {
                "kind": "code",
                "version": 1,
                "python": ".".join(platform.python_version_tuple()[:2]),
                "timeout_s": spec.timeout_s,
                "memory_mib": spec.memory_mib,
            }
        )
        self._checked = False
        self._checking = asyncio.Lock()

    async def score(self, answers: Sequence[Answer]) -> list[Verdict]:
        """One verdict an answer, in their order.

        Raises ``ConfigError`` where this machine, as it is, or the limits given let no code run.
        """
        return [await self._rate(answer) for answer in answers]

    async def alive(self) -> bool:
        """Nobody else is asked."""
        return True

    async def close(self) -> None:
        """Nothing runs between calls."""

    async def _rate(self, answer: Answer) -> Verdict:
        tests = answer.question.tests
        if tests is None or not tests.strip():
            return missing("no tests")
        try:
            singles = single_tests(tests)
        except ValueError as error:
            return missing(str(error))
        await self._check()
        return await self._run(python_source(answer.response), singles)

    async def _run(self, source: str, singles: Sequence[SingleTest]) -> Verdict:
        passed = 0
        first = ""
        for single in singles:
            outcome = await self._outcome(source, single.program)
            if outcome is None:
                return missing("the process for the answer's code did not start")
            if not outcome.loaded:
                return Verdict(0.0, "ok", f"the answer's code fails: {outcome.failure}")
            passed += outcome.failure is None
            if outcome.failure is not None and not first:
                first = f"; line {single.line} of the tests: {outcome.failure}"
        return Verdict(passed / len(singles), "ok", f"{passed} of {len(singles)} tests passed{first}")

    async def _outcome(self, source: str, test: str) -> Outcome | None:
        try:
            return await run_test(source, test, self._limits)
        except OSError as error:
            raise ConfigError(
                f"signal {self.name}: no process for the answers' code can be started: "
                f"{error.strerror or error}; make room and run the command again, labels so far are kept"
            ) from None

    async def _check(self) -> None:
        """Once: code that can't fail must pass, or every score would be a lie."""
        async with self._checking:
            if self._checked:
                return
            outcome = await self._outcome("import dataclasses, json, math, re", "assert math.pi > 3")
            if outcome is None or outcome.failure is not None:
                raise ConfigError(self._unable(outcome))
            self._checked = True
        if lacking := sorted(ISOLATED - outcome.isolated):
            _log.warning(
                "signal %s: this system does not let rbx shut off %s from the answers' code",
                self.name,
                " and ".join(lacking),
            )

    def _unable(self, outcome: Outcome | None) -> str:
        why = outcome.failure if outcome else "its process did not start"
        return (
            f"signal {self.name}: Python code can't be run here within timeout_s: {self._limits.timeout_s:g} "
            f"and memory_mib: {self._limits.memory_bytes >> 20} ({why}); raise them, or remove the signal"
        )
