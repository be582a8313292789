"""A result file of ``vllm bench serve``: one JSON object, or one a line (``--append-result``), checked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from rbx.config.base import NonNegativeFloat, NonNegativeInt, PositiveFloat
from rbx.errors import DatasetError

_LARGEST_BYTES = 1 << 30
_SHOWN_FAULTS = 5
# Of these each entry is one request.
_ARRAYS = ("input_lens", "output_lens", "ttfts", "itls", "start_times", "errors")
_Finite = Annotated[float, Field(allow_inf_nan=False)]


class BenchFile(BaseModel):
    """What is read of a result; keys that are not named here are left alone."""

    model_config = ConfigDict(strict=True, frozen=True, extra="ignore", allow_inf_nan=False)

    model_id: str = ""
    label: str | None = None
    date: str | None = None
    backend: str | None = None
    request_rate: PositiveFloat | Literal["inf"] | None = None
    completed: NonNegativeInt
    duration: PositiveFloat
    input_lens: list[NonNegativeInt] = Field(min_length=1)
    output_lens: list[NonNegativeInt]
    ttfts: list[NonNegativeFloat]
    itls: list[list[NonNegativeFloat]]
    start_times: list[_Finite]
    errors: list[str]
    latencies: list[NonNegativeFloat] | None = None
    queue_times: list[NonNegativeFloat] | None = None
    generated_texts: list[str] | None = None

    @model_validator(mode="after")
    def _whole(self) -> BenchFile:
        n = len(self.input_lens)
        for name in (*_ARRAYS, "latencies", "queue_times", "generated_texts"):
            values = getattr(self, name)
            if values is not None and len(values) != n:
                raise ValueError(f"{name} has {len(values)} entries, input_lens has {n}")
        if self.completed != sum(self.succeeded):
            raise ValueError(
                f"completed is {self.completed}, but {sum(self.succeeded)} requests have output and no error"
            )
        return self

    @property
    def succeeded(self) -> list[bool]:
        """Whether each request completed; the file itself does not say it of each."""
        return [tokens > 0 and not error for tokens, error in zip(self.output_lens, self.errors, strict=True)]

    @property
    def ends_s(self) -> list[float]:
        """Latency of each request; before vLLM wrote it, the first token and all gaps after it."""
        if self.latencies is not None:
            return self.latencies
        return [first + sum(gaps) for first, gaps in zip(self.ttfts, self.itls, strict=True)]


def read_bench_file(path: Path) -> list[BenchFile]:
    """Read every result of a file; raises ``DatasetError`` naming file, line and key."""
    try:
        if path.stat().st_size > _LARGEST_BYTES:
            raise DatasetError(f"{path}: larger than {_LARGEST_BYTES >> 20:,} MiB")
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DatasetError(f"{path}: can't be read: {error}") from None
    return [_result(where, content) for where, content in _documents(path, text)]


def _documents(path: Path, text: str) -> list[tuple[str, Any]]:
    try:
        return [(str(path), json.loads(text))]
    except json.JSONDecodeError:
        pass  # several results, a line each
    found = []
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip():
            where = f"{path}: line {number}"
            try:
                found.append((where, json.loads(line)))
            except json.JSONDecodeError as error:
                raise DatasetError(f"{where}: not JSON: {error}") from None
    if not found:
        raise DatasetError(f"{path}: empty")
    return found


def _result(where: str, content: Any) -> BenchFile:
    if not isinstance(content, dict):
        raise DatasetError(f"{where}: expected a JSON object, the result of vllm bench serve")
    lacking = [name for name in _ARRAYS if name not in content]
    if lacking:
        raise DatasetError(
            f"{where}: no {', '.join(lacking)}: without its requests one by one a result can't be a cell; "
            "run vllm bench serve with --save-result --save-detailed"
        )
    try:
        return BenchFile.model_validate(content)
    except ValidationError as error:
        faults = [
            f"{'.'.join(map(str, fault['loc'])) or 'the result'}: {fault['msg']}" for fault in error.errors()
        ]
        more = f"; and {len(faults) - _SHOWN_FAULTS} more" if len(faults) > _SHOWN_FAULTS else ""
        raise DatasetError(f"{where}: {'; '.join(faults[:_SHOWN_FAULTS])}{more}") from None
