"""A result file of ``vllm bench serve``: one JSON object, or one a line (``--append-result``), checked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from rbx.config.base import NonNegativeInt
from rbx.errors import DatasetError

_LARGEST_BYTES = 1 << 30
_SHOWN_FAULTS = 5
SHORTEST_S = 1e-6
# Of these each entry is one request.
_ARRAYS = ("input_lens", "output_lens", "ttfts", "itls", "start_times", "errors")
_LONGEST_S = 1e7  # four months
_Seconds = Annotated[float, Field(ge=0, le=_LONGEST_S)]
# A clock of theirs: since the machine's start, or since 1970.
_Instant = Annotated[float, Field(ge=-1e10, le=1e10)]


def _encodable(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("holds half of a surrogate pair, which no file can carry") from None
    return text


_Words = Annotated[str, AfterValidator(_encodable)]
# Shown in terminals: no control characters, which may steer them.
_Name = Annotated[str, Field(max_length=200, pattern=r"^[^\x00-\x1f\x7f-\x9f]*$")]


class BenchFile(BaseModel):
    """What is read of a result; keys that are not named here are left alone."""

    model_config = ConfigDict(strict=True, frozen=True, extra="ignore", allow_inf_nan=False)

    model_id: _Name = ""
    label: _Name | None = None
    date: _Name | None = None
    backend: _Name | None = None
    request_rate: Annotated[float, Field(ge=1e-6, le=1e9)] | Literal["inf"] | None = None
    completed: NonNegativeInt
    duration: Annotated[float, Field(ge=SHORTEST_S, le=_LONGEST_S)]
    input_lens: list[NonNegativeInt] = Field(min_length=1)
    output_lens: list[NonNegativeInt]
    ttfts: list[_Seconds]
    itls: list[list[_Seconds]]
    start_times: list[_Instant]
    errors: list[_Words]
    latencies: list[_Seconds] | None = None
    queue_times: list[_Seconds] | None = None
    generated_texts: list[_Words] | None = None

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
        if max(self.start_times) - min(self.start_times) > _LONGEST_S:
            raise ValueError(f"start_times are more than {_LONGEST_S:g} s apart")
        ends = zip(self.succeeded, self.ttfts, self.ends_s, strict=True)
        for request, (ok, first_s, end_s) in enumerate(ends):
            if end_s > _LONGEST_S:
                raise ValueError(f"itls.{request}: more than {_LONGEST_S:g} s in all")
            if ok and first_s > end_s:
                raise ValueError(f"ttfts.{request}: {first_s:g} s is beyond the latency, {end_s:g} s")
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
    lines = [(k, line) for k, line in enumerate(text.split("\n"), start=1) if line.strip()]
    if not lines:
        raise DatasetError(f"{path}: empty")
    try:
        return [(str(path), json.loads(text))]
    except json.JSONDecodeError as error:
        if error.msg != "Extra data":
            raise DatasetError(f"{path}: not JSON: {error}") from None
    except (ValueError, RecursionError) as error:  # a number of thousands of digits, or deep nesting
        raise DatasetError(f"{path}: can't be read: {error}") from None
    found = []
    for number, line in lines:  # several results, a line each
        where = f"{path}: line {number}"
        try:
            found.append((where, json.loads(line)))
        except (ValueError, RecursionError) as error:
            raise DatasetError(f"{where}: not JSON: {error}") from None
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
            f"{'.'.join(map(str, fault['loc'])) or 'the result'}: {fault['msg']}".replace("Value error, ", "")
            for fault in error.errors()
        ]
        more = f"; and {len(faults) - _SHOWN_FAULTS} more" if len(faults) > _SHOWN_FAULTS else ""
        raise DatasetError(f"{where}: {'; '.join(faults[:_SHOWN_FAULTS])}{more}") from None
