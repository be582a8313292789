"""Export schema ``routebalance``: one JSON line per prompt, as in RouteBalance's estimator data.

Facts §5.6 of the published data: ``request_id, prompt, input_len, dataset, source, is_harmful,
reference_text`` and ``models``, an object by model name that the hub's copy holds as a JSON string.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rbx.grid.manifest import Manifest
from rbx.grid.split import is_train
from rbx.grid.tables import Tables, rows_by_cell

ENDING = "jsonl"
# Scores that stand in a model's entry; all others are judges' and stand in llm_judge_scores.
ENTRY_SCORES = ("similarity_score", "reference_similarity", "reference_score")
FEATURES = [
    {"name": name, "dtype": dtype}
    for name, dtype in (
        ("request_id", "string"),
        ("prompt", "string"),
        ("input_len", "int64"),
        ("dataset", "string"),
        ("source", "string"),
        ("is_harmful", "bool"),
        ("reference_text", "string"),
        ("models", "string"),
    )
]


class RouteBalanceRows:
    """The rows of a grid, ready to be written a range of prompts at a time."""

    def __init__(self, manifest: Manifest, tables: Tables) -> None:
        """Find each pair's rows once."""
        ids = tables.prompts["prompt_id"]
        self._models = manifest.models
        self._keys = metric_keys(manifest)
        self._quality, self._input_tokens = manifest.quality, manifest.input_tokens_origin
        self._prompts = tables.prompts
        self._request_ids = request_ids(tables.prompts)
        self._responses = (tables.responses, rows_by_cell(tables.responses, ids, manifest.models))
        self._scores = {
            metric: (rows.select(["score"]), rows_by_cell(rows, ids, manifest.models))
            for metric in manifest.metrics
            for rows in [tables.labels.filter(pc.equal(tables.labels["metric"], metric))]
        }

    def write(self, path: Path, prompts: NDArray[np.int64]) -> None:
        """Write the rows of these prompts, numbered as in the grid."""
        with path.open("w", encoding="utf-8") as file:
            for row in self.rows(prompts):
                file.write(json.dumps(row, allow_nan=False) + "\n")

    def rows(self, prompts: NDArray[np.int64]) -> Iterator[dict[str, Any]]:
        """One row per prompt; a model without an answer has null for its entry."""
        answers = _taken(*self._responses, prompts)
        scores = {self._keys[metric]: _taken(*labels, prompts) for metric, labels in self._scores.items()}
        for at, prompt in enumerate(self._prompts.take(pa.array(prompts)).to_pylist()):
            entries = {}
            for pair, model in enumerate(self._models, start=at * len(self._models)):
                own = {key: found[pair]["score"] for key, found in scores.items()}
                entries[model] = _entry(answers[pair], own)
            yield _row(self._request_ids[prompts[at]], prompt, entries)

    def text(self) -> str:
        """What a reader of the card needs to know of the columns."""
        scored = [
            metric for metric, (rows, _) in self._scores.items() if rows["score"].null_count < len(rows)
        ]
        metrics = "".join(f"        {metric}: {self._keys[metric]}\n" for metric in scored)
        quality = f"      quality: {self._quality}\n" if self._quality in scored else ""
        tokens = f"      input_tokens: {json.dumps(self._input_tokens)}\n"
        return (
            "One row per prompt in the schema of RouteBalance's estimator data; `models` is a JSON string.\n"
            "A model without an answer has null for its entry, a score that is missing is null. Reasons\n"
            "and statuses are left out. `rbx build-dataset` reads it with\n\n"
            "    source:\n      kind: routebalance\n      path: DIR\n      metrics:\n"
            + metrics
            + quality
            + tokens
        )


def metric_keys(manifest: Manifest) -> dict[str, str]:
    """The key of every metric in a model's entry: that of the rows it was read from, or its own name."""
    source = manifest.spec.get("source", {})
    known = source.get("metrics", {}) if source.get("kind") == "routebalance" else {}
    return {metric: known.get(metric, metric) for metric in manifest.metrics}


def request_ids(prompts: pa.Table) -> list[str]:
    """An id per prompt whose hash gives the prompt's split, as RouteBalance's rule has it.

    The ids of the source where they do that and are distinct; else the prompt's id, with the first number
    behind it that does.
    """
    splits = [split == "train" for split in prompts["split"].to_pylist()]
    own = zip(prompts["source_id"].to_pylist(), splits, strict=True)
    told = [each for each, train in own if each and each.strip() and is_train(each) == train]
    if len(set(told)) == len(splits):
        return told
    return [
        _with_split(identity, train)
        for identity, train in zip(prompts["prompt_id"].to_pylist(), splits, strict=True)
    ]


def _with_split(identity: str, train: bool) -> str:
    found, number = identity, 0
    while is_train(found) != train:
        number += 1
        found = f"{identity}-{number}"
    return found


def _row(request_id: str, prompt: dict[str, Any], entries: dict[str, Any]) -> dict[str, Any]:
    return {
        "request_id": request_id,
        "prompt": prompt["prompt"],
        "input_len": prompt["input_tokens"],
        "dataset": prompt["source"].partition("/")[0],
        "source": prompt["source"],
        "is_harmful": prompt["is_harmful"],
        "reference_text": prompt["reference"],
        "models": json.dumps(entries, allow_nan=False),
    }


def _entry(answer: dict[str, Any], scores: dict[str, float | None]) -> dict[str, Any] | None:
    answered = answer["status"] in ("ok", "empty")
    if not answered and all(score is None for score in scores.values()):
        return None
    finish = answer["finish_reason"]
    return {
        "output_length": answer["output_tokens"],
        "is_truncated": None if finish is None else finish == "length",
        "response": "" if answer["status"] == "empty" else answer["response"],
        "llm_judge_scores": {key: score for key, score in scores.items() if key not in ENTRY_SCORES},
        **{key: score for key, score in scores.items() if key in ENTRY_SCORES},
    }


def _taken(table: pa.Table, row_of: NDArray[np.int64], prompts: NDArray[np.int64]) -> list[dict[str, Any]]:
    """The row of every pair of these prompts, of nulls where there is none."""
    at = row_of[prompts].ravel()
    found: list[dict[str, Any]] = table.take(pa.array(at, mask=at < 0)).to_pylist()
    return found
