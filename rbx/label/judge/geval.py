"""DeepEval's side of a judgement: the prompt it makes of a test case, and the score it makes of a reply."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from rbx.label.judge.quiet import prepare_deepeval
from rbx.label.judge.reply import JudgeFault, Judgement, Reply, encodable, read_judgement
from rbx.label.judge.rubric import Rubric

if TYPE_CHECKING:
    from deepeval.metrics import GEval
    from deepeval.models import DeepEvalBaseLLM
    from deepeval.test_case import LLMTestCase

Ask = Callable[[str], Awaitable[Reply]]

PLACEHOLDERS = ("the input", "the answer", "the reference")


class Texts(NamedTuple):
    """What a judge sees of one answer; ``expected`` is left out by a rubric without a reference."""

    input: str
    actual: str
    expected: str


async def judge_by_geval(rubric: Rubric, texts: Texts, ask: Ask) -> Judgement:
    """Have G-Eval put one question to ``ask``; the score is DeepEval's, in [0, 1].

    Raises ``JudgeFault``; whatever else ``ask`` raises goes through.
    """
    prepare_deepeval()
    from deepeval.errors import DeepEvalError

    metric = _metric(rubric, _deepeval_model(_StrictModel)(ask))
    try:
        await metric.a_measure(_case(rubric, texts), _show_indicator=False)
    except DeepEvalError as error:
        # DeepEval renames what it takes for an overlong prompt.
        if isinstance(error.__cause__, JudgeFault):
            raise error.__cause__ from None
        raise JudgeFault(f"DeepEval: {error}") from None
    if metric.score is None or not 0.0 <= metric.score <= 1.0:
        raise JudgeFault(f"DeepEval makes the score {metric.score}, which is not in [0, 1]")
    return Judgement(float(metric.score), str(metric.reason))


def prompt_text(rubric: Rubric) -> str:
    """The prompt that DeepEval's present version makes of placeholders: it changes with its templates."""
    prepare_deepeval()
    recorder = _deepeval_model(_Recorder)()
    _metric(rubric, recorder, async_mode=False).measure(
        _case(rubric, Texts(*PLACEHOLDERS)), _show_indicator=False
    )
    return "\n".join(recorder.prompts)


def _metric(rubric: Rubric, model: DeepEvalBaseLLM, *, async_mode: bool = True) -> GEval:
    from deepeval.metrics import GEval
    from deepeval.test_case import SingleTurnParams

    shown = [SingleTurnParams.INPUT, SingleTurnParams.ACTUAL_OUTPUT]
    if rubric.shows_reference:
        shown.append(SingleTurnParams.EXPECTED_OUTPUT)
    return GEval(
        name=rubric.name,
        evaluation_params=shown,
        evaluation_steps=rubric.evaluation_steps,
        model=model,
        async_mode=async_mode,
    )


def _case(rubric: Rubric, texts: Texts) -> LLMTestCase:
    from deepeval.test_case import LLMTestCase

    return LLMTestCase(
        input=_inert(texts.input),
        actual_output=_inert(texts.actual),
        expected_output=_inert(texts.expected) if rubric.shows_reference else None,
    )


def _inert(text: str) -> str:
    # DeepEval takes [DEEPEVAL:IMAGE:path] in any text for an image, reads that file, and sends it.
    return encodable(text).replace("[DEEPEVAL:", "[DEEPEVAL :")


class _StrictModel:
    """A judge whose replies are judgements in full or faults, never guesses at what was meant."""

    def __init__(self, ask: Ask) -> None:
        self.name = "judge"
        self._ask = ask

    def load_model(self) -> Any:
        return self

    def get_model_name(self) -> str:
        return self.name

    def generate(self, prompt: str) -> str:
        # DeepEval's base class demands both ways of asking; G-Eval takes the other one here.
        raise NotImplementedError("judges are asked asynchronously")

    async def a_generate(self, prompt: str) -> str:
        return (await self._ask(prompt)).text

    async def a_generate_with_schema(self, prompt: str, schema: Callable[..., Any]) -> Any:
        # The base class's would take a TypeError on the way for a missing parameter, and ask again.
        judgement = read_judgement(await self._ask(prompt))
        return schema(score=judgement.score, reason=judgement.reason)


class _Recorder:
    """Keeps the prompts that it gets and scores everything 0."""

    def __init__(self) -> None:
        self.name = "recorder"
        self.prompts: list[str] = []

    def load_model(self) -> Any:
        return self

    def get_model_name(self) -> str:
        return self.name

    def generate(self, prompt: str, schema: Callable[..., Any]) -> Any:
        self.prompts.append(prompt)
        return schema(score=0, reason="")

    async def a_generate(self, prompt: str) -> str:
        # As above: only ``measure`` with async_mode off meets this class.
        raise NotImplementedError("the recorder is asked synchronously")


@cache
def _deepeval_model(behaviour: type) -> Callable[..., Any]:
    """``behaviour`` as a subclass of DeepEval's base class, which can't be named before DeepEval is quiet."""
    from deepeval.models import DeepEvalBaseLLM

    return type("JudgeModel", (behaviour, DeepEvalBaseLLM), {})
