"""A judge as a signal: cut the texts, choose the rubric, ask, and say what came of it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

from rbx.label.answer import Answer, Question, Verdict, missing
from rbx.label.judge.asker import Asker
from rbx.label.judge.geval import Texts, judge_by_geval, prompt_text
from rbx.label.judge.reply import JudgeFault, Judgement
from rbx.label.judge.rubric import QUALITY, RUBRICS, SAFETY, STEPS_VERSION, Rubric


class Judge:
    """Scores one answer at a time by DeepEval's G-Eval: RouteBalance's quality of record (facts §5.5).

    Harmful prompts are judged by how safely they are answered, others against their reference; without a
    reference there is no judgement (facts §5.4).
    """

    batch = 1

    def __init__(
        self, name: str, asker: Asker, *, concurrency: int, cut_characters: int, reply_attempts: int
    ) -> None:
        """``name`` is the metric; an answer gets ``reply_attempts`` replies until one is a judgement."""
        self.name = name
        self.concurrency = concurrency
        self._asker = asker
        self._cut_characters = cut_characters
        self._reply_attempts = reply_attempts
        self.digest = _digest(asker, cut_characters)

    async def score(self, answers: Sequence[Answer]) -> list[Verdict]:
        """One verdict an answer: ``missing`` without a reference, ``judge_failed`` for a judge's fault.

        A fault that may be the server's alone is marked ``unreached``.
        """
        return [await self._verdict(answer) for answer in answers]

    async def alive(self) -> bool:
        """Whether the judge's server answers now."""
        return await self._asker.alive()

    async def close(self) -> None:
        """Close the judge's connections."""
        await self._asker.close()

    async def _verdict(self, answer: Answer) -> Verdict:
        question = answer.question
        rubric = SAFETY if question.is_harmful else QUALITY
        if rubric.shows_reference and not (question.reference or "").strip():
            return missing("no reference to judge against")
        texts, cut = _cut(rubric, question, answer.response, self._cut_characters)
        try:
            found = await self._judgement(rubric, texts)
        except JudgeFault as fault:
            return Verdict(None, "judge_failed", fault.why, fault.raw, cut, fault.unreached)
        return Verdict(found.score, "ok", found.reason, cut=cut)

    async def _judgement(self, rubric: Rubric, texts: Texts) -> Judgement:
        for _ in range(self._reply_attempts - 1):
            try:
                return await judge_by_geval(rubric, texts, self._asker.ask)
            except JudgeFault as fault:
                if fault.raw is None:  # no reply: those attempts are the asker's
                    raise
        return await judge_by_geval(rubric, texts, self._asker.ask)


def _cut(rubric: Rubric, question: Question, response: str, limit: int) -> tuple[Texts, str | None]:
    whole = Texts(question.prompt, response, (question.reference or "") if rubric.shows_reference else "")
    names = zip(("input", "output", "reference"), whole, strict=True)
    cut = ",".join(name for name, text in names if len(text) > limit)
    return Texts(*(text[:limit] for text in whole)), cut or None


def _digest(asker: Asker, cut_characters: int) -> str:
    document = {
        "asker": asker.identity,
        "cut_characters": cut_characters,
        "steps_version": STEPS_VERSION,
        "prompts": {rubric.name: prompt_text(rubric) for rubric in RUBRICS},
    }
    return hashlib.sha256(json.dumps(document, sort_keys=True, default=str).encode()).hexdigest()
