"""``manifest.json``: what a grid's files must be, what stands in them and how they came about."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError, model_validator

from rbx.config.base import NonNegativeInt, StrictModel, digest
from rbx.errors import DatasetError
from rbx.grid.schema import DEFAULT_METRIC

FILE = "manifest.json"
FORMAT = 2  # 2: token sources, errors, judges' raw replies and cuts; the metric that stands for quality
COUNTED = "counted by the source"
TABLES = ("prompts.parquet", "responses.parquet", "labels.parquet")


class Counts(StrictModel):
    """Rows by kind; a label is present where its score is not null.

    ``disagreeing_duplicates`` are the dropped duplicates that some model scored otherwise than the prompt
    that stays.
    """

    prompts: NonNegativeInt
    train: NonNegativeInt
    test: NonNegativeInt
    responses: NonNegativeInt
    labels: NonNegativeInt
    labels_present: NonNegativeInt
    duplicate_prompts: NonNegativeInt
    disagreeing_duplicates: NonNegativeInt = 0


class Manifest(StrictModel):
    """Written last; a directory without one is not a grid."""

    format: int
    name: str
    description: str
    licence: str
    synthetic: bool
    models: tuple[str, ...] = Field(min_length=1)
    metrics: tuple[str, ...] = Field(min_length=1)
    quality: str  # which of the metrics stands for quality
    counts: Counts
    files: dict[str, str]  # table -> sha256 of its bytes
    digest: str  # identity of the grid: the digest of ``files``
    spec: dict[str, Any]
    sources: dict[str, str]  # dotted key of the spec -> default | file | --set
    provenance: dict[str, Any]
    versions: dict[str, str]

    @model_validator(mode="after")
    def _quality_is_a_metric(self) -> Manifest:
        quality_metric(self.metrics, self.quality)
        return self

    def metric_called(self, name: str) -> str:
        """The metric meant by ``name``: ``quality`` is the one that stands for it."""
        return self.quality if name == DEFAULT_METRIC else name

    @property
    def metrics_told(self) -> str:
        """The metrics in a line, with the one that stands for quality where its name doesn't say so."""
        role = "" if self.quality == DEFAULT_METRIC else f" ({self.quality} stands for quality)"
        return ", ".join(self.metrics) + role

    @property
    def input_tokens_origin(self) -> str:
        """How the prompts' input tokens came about; begins with ``estimated`` where any is an estimate."""
        return str(self.provenance.get("input_tokens", COUNTED))

    @property
    def input_tokens_estimated(self) -> bool:
        """Whether some prompt's input tokens are an estimate."""
        return self.input_tokens_origin.startswith("estimated")


def quality_metric(metrics: Sequence[str], named: str | None = None) -> str:
    """Which metric stands for quality: the ``named`` one; else ``quality`` if there, else the first.

    Raises ``ValueError`` where ``named`` is none of them, or passes over one that is called ``quality``.
    """
    if named is None:
        return DEFAULT_METRIC if DEFAULT_METRIC in metrics else metrics[0]
    if named not in metrics:
        raise ValueError(f"{named!r} can't stand for quality: the metrics are {', '.join(metrics)}")
    if DEFAULT_METRIC in metrics and named != DEFAULT_METRIC:
        raise ValueError(
            f"{named!r} can't stand for quality beside a metric called {DEFAULT_METRIC}; rename that one"
        )
    return named


def digest_of_files(files: dict[str, str]) -> str:
    """Identity of a grid by the sha256 of its tables."""
    return digest({name: files[name] for name in TABLES})


def _format_of(text: str) -> Any:
    """The format of a manifest, None where it names none."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return data.get("format") if isinstance(data, dict) else None


def read_manifest(folder: Path) -> Manifest:
    """Read and validate; raises ``DatasetError`` where it is absent, malformed or of another format."""
    path = folder / FILE
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        what = f"no {FILE} in it" if folder.is_dir() else "no such directory"
        raise DatasetError(f"{folder}: not a grid ({what}); make one with `rbx build-dataset`") from None
    except (OSError, UnicodeDecodeError) as error:
        raise DatasetError(f"{path}: can't be read: {error}") from None
    # First of all: a manifest of another format has other keys.
    if (found := _format_of(text)) not in (None, FORMAT):
        raise DatasetError(
            f"{path}: written in format {found}, this version reads {FORMAT}; build the grid again"
        )
    try:
        manifest = Manifest.model_validate_json(text)
    except ValidationError as error:
        faults = "; ".join(
            f"{'.'.join(map(str, each['loc'])) or '(top)'}: {each['msg']}" for each in error.errors()
        )
        raise DatasetError(f"{path}: not a valid manifest: {faults}; build the grid again") from None
    if set(manifest.files) != set(TABLES) or manifest.digest != digest_of_files(manifest.files):
        raise DatasetError(f"{path}: its digest does not match its list of files; build the grid again")
    return manifest
