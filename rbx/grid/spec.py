"""The spec file of ``rbx build-dataset``: a name and one source."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from rbx.config.base import Loaded, NonNegativeInt, PositiveInt, StrictModel, UnitFloat, chosen_by, load
from rbx.config.labelling import LabelSource
from rbx.grid.schema import DEFAULT_METRIC

RECORD_KEY = "deepeval-llama3.1-8b-it_reference"
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
Text = Annotated[str, Field(min_length=1)]


class ZeroEvalSource(StrictModel):
    """A folder with ``prompts.jsonl.gz`` and ``grid.jsonl.gz``: verified 0/1 answers of ZeroEval."""

    kind: Literal["zeroeval"]
    path: Path | None = None
    models: tuple[Text, ...] = ()  # empty: all of them


class RouteBalanceSource(StrictModel):
    """Rows in the schema of RouteBalance's estimator data: local files, or a dataset on the hub.

    ``metrics`` maps the grid's metric names to keys of the rows: a key of ``llm_judge_scores`` or a field
    of the model's entry, such as ``similarity_score``. ``rename`` maps model names to the pool's.
    """

    kind: Literal["routebalance"]
    path: Path | None = None  # a file, or a folder of .jsonl and .parquet files
    hub: Text | None = None  # such as asdwb/route_balance_model_estimator
    revision: Text = "main"
    metrics: dict[Name, Text] = Field(default={DEFAULT_METRIC: RECORD_KEY}, min_length=1)
    rename: dict[Text, Text] = Field(default_factory=dict)
    quality: Name | None = None  # which metric stands for quality; default: the one called so, or the first
    input_tokens: Text | None = None  # how input_len was counted, where the rows' maker says so
    max_tokens: PositiveInt = 1024  # the authors' generation limit, for finish_reason

    @model_validator(mode="after")
    def _one_place(self) -> RouteBalanceSource:
        if (self.path is None) == (self.hub is None):
            raise ValueError("give either path (local) or hub (a dataset id), by --set source.path=FILE")
        return self


class LongColumns(StrictModel):
    """Column names where each row holds one answer."""

    prompt: Text
    model: Text
    score: Text
    id: Text | None = None
    response: Text | None = None
    output_tokens: Text | None = None
    input_tokens: Text | None = None
    reference: Text | None = None
    source: Text | None = None
    is_harmful: Text | None = None
    finish_reason: Text | None = None


class WideColumns(StrictModel):
    """Column names of the prompt where each row holds the answers of all models."""

    prompt: Text
    id: Text | None = None
    input_tokens: Text | None = None
    reference: Text | None = None
    source: Text | None = None
    is_harmful: Text | None = None


class ModelColumns(StrictModel):
    """Column names of one model's answer in the wide layout."""

    score: Text
    response: Text | None = None
    output_tokens: Text | None = None
    finish_reason: Text | None = None


class ScoreRange(StrictModel):
    """The scores' own scale, mapped linearly to [0, 1]."""

    low: float = 0.0
    high: float = 1.0

    @model_validator(mode="after")
    def _ordered(self) -> ScoreRange:
        if not self.low < self.high:
            raise ValueError("low must be below high")
        return self


class LongTableSource(StrictModel):
    """Anybody's file with one row per (prompt, model)."""

    kind: Literal["table"]
    layout: Literal["long"]
    path: Path | None = None
    columns: LongColumns
    metric: Name = DEFAULT_METRIC
    score_range: ScoreRange = ScoreRange()


class WideTableSource(StrictModel):
    """Anybody's file with one row per prompt and columns per model."""

    kind: Literal["table"]
    layout: Literal["wide"]
    path: Path | None = None
    columns: WideColumns
    models: dict[Text, ModelColumns] = Field(min_length=1)
    metric: Name = DEFAULT_METRIC
    score_range: ScoreRange = ScoreRange()


TableSource = Annotated[
    LongTableSource | WideTableSource,
    chosen_by("layout", {"long": LongTableSource, "wide": WideTableSource}),
]


class SynthSource(StrictModel):
    """A synthetic grid, calibrated to the published figures of RouteBalance or BEAR; see docs/datasets.md.

    ``second_judge`` adds the scores of another judge, which agrees with the first as RouteBalance's two do.
    ``mean_scores`` sets what models score in the mean, in place of the preset's calibration: by family of
    prompts, or over ``all``, which the families that are not named then make up for. ``seen_affinity`` sets
    how much of what only one model is good at shows in the topic, docs/datasets.md's κ.
    """

    kind: Literal["synth"]
    preset: Literal["routebalance", "quickstart", "bear"]
    n: Annotated[int, Field(ge=1, le=200_000)] | None = None  # default: the preset's
    seed: NonNegativeInt = 0
    second_judge: bool = False
    mean_scores: dict[Text, dict[Text, UnitFloat]] = Field(default_factory=dict)
    seen_affinity: UnitFloat | None = None  # default: the preset's

    @model_validator(mode="after")
    def _whose_second(self) -> SynthSource:
        if self.second_judge and self.preset == "bear":
            raise ValueError("second_judge: its agreement is that of RouteBalance's judges, not of BEAR's")
        return self


Source = Annotated[
    ZeroEvalSource | RouteBalanceSource | TableSource | SynthSource | LabelSource,
    chosen_by(
        "kind",
        {
            "label": LabelSource,
            "table": TableSource,
            "routebalance": RouteBalanceSource,
            "zeroeval": ZeroEvalSource,
            "synth": SynthSource,
        },
    ),
]


class DatasetSpec(StrictModel):
    """One grid: its name, what the card says of it, and where its rows come from."""

    name: Name
    description: Text
    licence: Text = "unstated"
    source: Source

    @field_validator("name")
    @classmethod
    def _portable(cls, name: str) -> str:
        if len(name) > 100:
            raise ValueError("at most 100 characters")
        return name


def load_spec(path: Path, overrides: list[str] | None = None) -> Loaded[DatasetSpec]:
    """Read a spec file with ``--set`` overrides; raises ``ConfigError`` listing every fault."""
    return load(DatasetSpec, path, overrides)
