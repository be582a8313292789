"""Source ``label`` of a data set spec: prompts to ask, models to ask them, and signals that score answers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, get_args

from pydantic import AfterValidator, Field, field_validator, model_validator

from rbx.config.base import (
    Name,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    StrictModel,
    Text,
    UnitFloat,
    chosen_by,
)
from rbx.config.endpoint import Api, Attempts, Concurrency, Endpoint
from rbx.config.secrets import Options

CUT_CHARACTERS = 2048


def _plain_json(data: dict[str, Any]) -> dict[str, Any]:
    """YAML also has dates, NaN and keys that are no text."""
    try:
        json.dumps(data, sort_keys=True, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ValueError(f"can't be sent as JSON: {error}") from None
    return data


PlainJson = Annotated[Options, AfterValidator(_plain_json)]

PublicKind = Literal[
    "reward_bench", "code_ultra_feedback", "beaver_tails", "mix_instruct", "lmsys", "gsm8k", "squad"
]


class PublicPrompts(StrictModel):
    """One of the seven data sets that RouteBalance collected its prompts from.

    ``path`` is a local folder or file in the layout of the hub; without one the hub's copy is fetched.
    ``share`` is its part of ``total`` against the other sources' shares.
    """

    kind: PublicKind
    name: Name | None = None  # in the grid's source column; default: the kind
    path: Path | None = None
    hub: Text | None = None  # default: the id that RouteBalance used
    revision: Text = "main"
    share: PositiveFloat = 1.0


class PromptColumns(StrictModel):
    """Column names of anybody's file of prompts."""

    prompt: Text
    id: Text | None = None
    source: Text | None = None
    reference: Text | None = None
    tests: Text | None = None  # Python statements that check an answer's code
    is_harmful: Text | None = None


class TablePrompts(StrictModel):
    """Anybody's CSV, JSON lines or Parquet file of prompts, by a map of its columns."""

    kind: Literal["table"]
    name: Name
    path: Path
    columns: PromptColumns
    share: PositiveFloat = 1.0


_PROMPTS: dict[str, type[StrictModel]] = {
    **dict.fromkeys(get_args(PublicKind), PublicPrompts),
    "table": TablePrompts,
}
PromptSource = Annotated[PublicPrompts | TablePrompts, chosen_by("kind", _PROMPTS)]


class Prompts(StrictModel):
    """Which prompts to ask.

    ``total`` prompts are drawn by ``seed``, each source's quota by its share; what a source lacks, the
    others give. Without ``total`` all that pass the filter are taken. ``tokenizer`` is a
    ``tokenizer.json`` to count a prompt's tokens with; without one they are estimated.
    """

    sources: tuple[PromptSource, ...] = Field(min_length=1)
    total: Annotated[int, Field(ge=1, le=10_000_000, strict=True)] | None = None
    seed: NonNegativeInt = 1
    max_prompt_tokens: PositiveInt | None = 700
    tokenizer: Path | None = None

    @model_validator(mode="after")
    def _distinct(self) -> Prompts:
        _refuse_twice("sources", [source.name or source.kind for source in self.sources])
        return self


class Generation(StrictModel):
    """How every model is asked; RouteBalance's values by default.

    ``chat`` sends the prompt as a user's message and leaves the chat template to the server;
    ``completions`` sends the bare text. ``extra`` goes into the request's body as it is.
    """

    api: Api = "chat"
    temperature: Annotated[float, Field(ge=0, le=2, allow_inf_nan=False)] = 0.0
    top_p: Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)] | None = None
    frequency_penalty: Annotated[float, Field(ge=-2, le=2, allow_inf_nan=False)] = 1.2
    repetition_penalty: Annotated[float, Field(gt=0, le=2, allow_inf_nan=False)] | None = None
    max_tokens: PositiveInt = 1024
    seed: NonNegativeInt | None = None
    stop: tuple[Annotated[str, Field(min_length=1)], ...] = ()
    system: Annotated[str, Field(min_length=1)] | None = None
    extra: PlainJson = Field(default_factory=dict)

    @model_validator(mode="after")
    def _own_keys(self) -> Generation:
        taken = {"model", "messages", "prompt", "stream", "n", *type(self).model_fields} - {"extra"}
        if wrong := sorted(taken & set(self.extra)):
            raise ValueError(f"extra must not hold {', '.join(wrong)}")
        if self.system is not None and self.api != "chat":
            raise ValueError("system needs api: chat")
        return self


class Candidate(StrictModel):
    """One model to label: an endpoint that serves it, or weights for vLLM's batch API, or both.

    ``engine`` holds keyword arguments of ``vllm.LLM`` for them, such as ``max_model_len``.
    ``tokenizer`` is the ``tokenizer.json`` that recounts tokens where the server reports none.
    """

    name: Text
    endpoint: Endpoint | None = None
    weights: Text | None = None  # a folder or a hub id, for --offline-vllm
    engine: PlainJson = Field(default_factory=dict)
    tokenizer: Path | None = None

    @field_validator("engine")
    @classmethod
    def _own_code_only(cls, engine: dict[str, Any]) -> dict[str, Any]:
        if wrong := sorted({"model", "trust_remote_code"} & set(engine)):
            raise ValueError(f"must not hold {', '.join(wrong)}")
        return engine


class EndpointJudge(StrictModel):
    """A judge behind any server that speaks the OpenAI API."""

    kind: Literal["endpoint"] = "endpoint"
    name: Name
    model: Text  # what the judge is, such as meta-llama/Llama-3.1-8B-Instruct
    endpoint: Endpoint
    temperature: Annotated[float, Field(ge=0, le=2, allow_inf_nan=False)] = 0.0
    max_tokens: PositiveInt = 512
    response_format: Literal["none", "json_object", "json_schema"] = "none"
    cut_characters: PositiveInt = CUT_CHARACTERS
    reply_attempts: Attempts = 2  # replies asked for until one is a judgement


class ProviderJudge(StrictModel):
    """A judge behind one of DeepEval's own model classes; its key is read as DeepEval documents."""

    kind: Literal["deepeval"]
    name: Name
    provider: Literal["openai", "azure", "anthropic", "gemini", "ollama", "litellm", "openrouter"]
    model: Text
    options: Options = Field(default_factory=dict)  # keyword arguments of the class, never a key
    concurrency: Concurrency = 8
    deadline_s: PositiveFloat = 300.0
    cut_characters: PositiveInt = CUT_CHARACTERS
    reply_attempts: Attempts = 2


JudgeSpec = Annotated[
    EndpointJudge | ProviderJudge,
    chosen_by("kind", {"endpoint": EndpointJudge, "deepeval": ProviderJudge}, default="endpoint"),
]


class _SignalSpec(StrictModel):
    name: Name
    sources: tuple[Name, ...] = ()  # score these sources only; empty: all


class JudgeSignal(_SignalSpec):
    """The score of one of ``judges``."""

    kind: Literal["judge"]
    judge: Name


class NumericSignal(_SignalSpec):
    """1 where the answer's final number equals the reference's, else 0."""

    kind: Literal["numeric"]
    tolerance: UnitFloat = 1e-6


class ExactSignal(_SignalSpec):
    """1 where the answer is the reference but for case, punctuation, articles and white space, else 0."""

    kind: Literal["exact"]


class TokenF1Signal(_SignalSpec):
    """F1 of the words shared by answer and reference."""

    kind: Literal["token_f1"]


class SimilaritySignal(_SignalSpec):
    """(cos + 1) / 2 between the embeddings of answer and reference."""

    kind: Literal["similarity"]
    encoder: Text = "minilm"


class CodeSignal(_SignalSpec):
    """Share of the prompt's tests that the answer's Python code passes, run in a limited subprocess.

    Runs code that a model wrote; it must be allowed by ``run_untrusted_code: true``.
    """

    kind: Literal["code"]
    run_untrusted_code: bool = False
    timeout_s: PositiveFloat = 10.0
    memory_mib: PositiveInt = 512
    concurrency: Concurrency = 2


class LengthSignal(_SignalSpec):
    """Output tokens / ``max_tokens`` of the generation, at most 1."""

    kind: Literal["length"]


class LengthBucketSignal(_SignalSpec):
    """The answer's length in ``buckets`` equal steps up to ``max_tokens``: bucket / (buckets − 1)."""

    kind: Literal["length_bucket"]
    buckets: Annotated[int, Field(ge=2, le=1024, strict=True)] = 16


class BySourceSignal(_SignalSpec):
    """Another signal of the list by the prompt's source, ``otherwise`` for the rest."""

    kind: Literal["by_source"]
    rules: dict[Name, Name] = Field(min_length=1)
    otherwise: Name | None = None


# Signals that need neither a judge nor another signal.
PlainSignal: TypeAlias = (
    NumericSignal
    | ExactSignal
    | TokenF1Signal
    | SimilaritySignal
    | CodeSignal
    | LengthSignal
    | LengthBucketSignal
)
SignalSpec = Annotated[
    JudgeSignal | PlainSignal | BySourceSignal,
    chosen_by(
        "kind",
        {
            "judge": JudgeSignal,
            "numeric": NumericSignal,
            "exact": ExactSignal,
            "token_f1": TokenF1Signal,
            "similarity": SimilaritySignal,
            "code": CodeSignal,
            "length": LengthSignal,
            "length_bucket": LengthBucketSignal,
            "by_source": BySourceSignal,
        },
    ),
]


class Judging(StrictModel):
    """Judges, and the signals that score answers by them or by rules.

    Without ``signals`` each judge is a signal of its own name.
    """

    judges: tuple[JudgeSpec, ...] = ()
    signals: tuple[SignalSpec, ...] = Field(min_length=1)

    @model_validator(mode="before")
    @classmethod
    def _judges_alone(cls, data: Any) -> Any:
        if not isinstance(data, dict) or data.get("signals") or not isinstance(data.get("judges"), list):
            return data
        names = [judge.get("name") for judge in data["judges"] if isinstance(judge, dict)]
        return data | {"signals": [{"kind": "judge", "name": name, "judge": name} for name in names]}

    @model_validator(mode="after")
    def _joined(self) -> Judging:
        _refuse_twice("judges", [judge.name for judge in self.judges])
        _refuse_twice("signals", [signal.name for signal in self.signals])
        judges = {judge.name for judge in self.judges}
        plain = {signal.name for signal in self.signals if not isinstance(signal, BySourceSignal)}
        for signal in self.signals:
            if isinstance(signal, JudgeSignal) and signal.judge not in judges:
                raise ValueError(f"signal {signal.name}: {signal.judge!r} is none of the judges")
            if isinstance(signal, BySourceSignal):
                asked = {*signal.rules.values(), *([signal.otherwise] if signal.otherwise else [])}
                if wrong := sorted(asked - plain):
                    raise ValueError(f"signal {signal.name}: {wrong[0]!r} is no other signal of the list")
        return self


class LabelSource(Judging):
    """Prompts, broadcast to models, scored by signals.

    ``quality`` names the signal that stands for the grid's quality wherever no metric is asked for.
    ``pool`` is a pool file whose models must all be among ``models``.
    """

    kind: Literal["label"]
    prompts: Prompts
    generation: Generation = Generation()
    pool: Path | None = None
    models: tuple[Candidate, ...] = Field(min_length=1)
    quality: Name = ""  # the first signal

    @model_validator(mode="before")
    @classmethod
    def _first_is_quality(cls, data: Any) -> Any:
        if not isinstance(data, dict) or data.get("quality") is not None:
            return data
        listed = data.get("signals") or data.get("judges")
        first = listed[0] if isinstance(listed, (list, tuple)) and listed else None
        return data | {"quality": first["name"]} if isinstance(first, dict) and "name" in first else data

    @model_validator(mode="after")
    def _whole(self) -> LabelSource:
        _refuse_twice("models", [model.name for model in self.models])
        names = [signal.name for signal in self.signals]
        if self.quality not in names:
            raise ValueError(f"quality: {self.quality!r} is none of the signals {', '.join(names)}")
        if "quality" in names and self.quality != "quality":
            raise ValueError(f"quality: is {self.quality!r}, so rename the signal that is called quality")
        return self


def _refuse_twice(what: str, names: Sequence[str]) -> None:
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"{what}: {', '.join(twice)} given twice")
