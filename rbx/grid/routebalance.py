"""Source ``routebalance``: the schema of RouteBalance's estimator data, local or from the hub."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rbx.config.base import digest
from rbx.errors import DatasetError
from rbx.grid.files import read_rows, sha256_of
from rbx.grid.harvest import Harvest, LabelRow, PromptRow, ResponseRow, Say, harvest_rows
from rbx.grid.hub import fetch_dataset
from rbx.grid.spec import RouteBalanceSource
from rbx.grid.values import Row

ENDINGS = (".jsonl", ".jsonl.gz", ".parquet")


@dataclass
class _Rows:
    prompts: list[PromptRow] = field(default_factory=list)
    responses: list[ResponseRow] = field(default_factory=list)
    labels: list[LabelRow] = field(default_factory=list)


def read_routebalance(spec: RouteBalanceSource, say: Say) -> Harvest:
    """Read every row; raises ``DatasetError`` naming file, row and column.

    The split follows md5 of the rows' own ``request_id``, as published. A metric that a model's entry
    lacks, or holds as null, becomes a null score; 0.0 stays 0.0.
    """
    commit = None
    if spec.path is not None:
        paths = _local_files(spec.path)
    else:
        assert spec.hub is not None
        say(f"fetching {spec.hub} from the hub")
        folder, commit = fetch_dataset(spec.hub, spec.revision)
        paths = _local_files(folder)
    rows, first = _Rows(), dict[str, str]()
    for path in paths:
        say(f"reading {path.name}")
        for row in read_rows(path):
            request_id = row.text("request_id")
            if request_id in first:
                raise row.fault("request_id", f"{request_id!r} was given in {first[request_id]} already")
            first[request_id] = f"{path.name}, row {row.number}"
            _add(rows, row, request_id, spec)
    _refuse_absent_metrics(rows, spec)
    provenance: dict[str, Any] = {"files": {path.name: sha256_of(path) for path in paths}}
    if spec.hub is not None:
        provenance |= {"hub": spec.hub, "revision": spec.revision, "commit": commit}
    if spec.input_tokens is not None:
        provenance["input_tokens"] = spec.input_tokens
    return harvest_rows(rows.prompts, rows.responses, rows.labels, provenance)


def _local_files(path: Path) -> list[Path]:
    if path.is_dir():
        found = sorted(each for each in path.rglob("*") if each.name.lower().endswith(ENDINGS))
        if not found:
            raise DatasetError(f"{path}: holds no {', '.join(ENDINGS)} file")
        return found
    return [path]


def _add(rows: _Rows, row: Row, request_id: str, spec: RouteBalanceSource) -> None:
    rows.prompts.append(
        PromptRow(
            key=request_id,
            prompt=row.text("prompt"),
            source=row.optional_text("source") or row.optional_text("dataset") or "unknown",
            reference=row.optional_text("reference_text"),
            is_harmful=row.flag("is_harmful"),
            input_tokens=row.count("input_len"),
            split_id=request_id,
            source_id=request_id,
        )
    )
    taken: set[str] = set()
    for own_name, entry in _entries(row):
        model = spec.rename.get(own_name, own_name)
        if model in taken:
            raise row.fault("models", f"two entries are called {model!r} after rename")
        taken.add(model)
        answer = Row(row.path, row.number, entry)
        rows.responses.append(_response(answer, request_id, model, spec.max_tokens))
        rows.labels.extend(_labels(answer, request_id, model, spec.metrics))


def _entries(row: Row) -> Iterator[tuple[str, dict[str, Any]]]:
    models = row.require("models")
    if isinstance(models, str):
        try:
            models = json.loads(models)
        except (ValueError, RecursionError) as error:
            raise row.fault("models", f"the string is not valid JSON: {error}") from None
    if not isinstance(models, dict) or not models:
        raise row.fault("models", "expected an object with one entry per model")
    for name, entry in models.items():
        # A Parquet struct names every model of the file in every row; null says that this row lacks it.
        if entry is None:
            continue
        if not isinstance(entry, dict):
            raise row.fault(f"models.{name}", f"expected an object, found {type(entry).__name__}")
        yield name, entry


def _response(answer: Row, key: str, model: str, max_tokens: int) -> ResponseRow:
    text = answer.optional_text("response")
    tokens = answer.optional_count("output_length")
    cut = answer.flag("is_truncated") or (tokens is not None and tokens >= max_tokens)
    finish = "length" if cut else None if tokens is None else "stop"
    generation = digest(["routebalance", model, max_tokens])
    return ResponseRow(key, model, text, tokens, finish, generation, "empty" if text == "" else "ok")


def _labels(answer: Row, key: str, model: str, metrics: dict[str, str]) -> Iterator[LabelRow]:
    judged = answer.values.get("llm_judge_scores") or {}
    if not isinstance(judged, dict):
        raise answer.fault("llm_judge_scores", f"expected an object, found {type(judged).__name__}")
    for metric, own_key in metrics.items():
        cells = judged if own_key in judged else answer.values
        score = Row(answer.path, answer.number, cells).optional_score(own_key)
        status = "missing" if score is None else "ok"
        yield LabelRow(key, model, metric, score, status, None, digest(["routebalance", own_key]))


def _refuse_absent_metrics(rows: _Rows, spec: RouteBalanceSource) -> None:
    scored = {label.metric for label in rows.labels if label.score is not None}
    absent = [f"{metric} ({own})" for metric, own in spec.metrics.items() if metric not in scored]
    if rows.labels and absent:
        raise DatasetError(
            f"no row has a score for {', '.join(absent)}; set source.metrics to keys that exist"
        )
