"""The labelled grid: Arrow schemas of its three tables and the dense view that the rest works on.

A grid is a directory::

    prompts.parquet     one row per prompt
    responses.parquet   one row per (prompt, model)
    labels.parquet      one row per (prompt, model, metric)
    manifest.json       digests, counts, versions, provenance
    README.md           dataset card

A missing score is null with a status; zero is a score. Nothing maps one to the other.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

DEFAULT_METRIC = "quality"

PROMPTS = pa.schema(
    [
        pa.field("prompt_id", pa.string(), nullable=False),
        pa.field("prompt", pa.string(), nullable=False),
        pa.field("source", pa.string(), nullable=False),
        pa.field("reference", pa.string()),
        pa.field("is_harmful", pa.bool_(), nullable=False),
        pa.field("split", pa.string(), nullable=False),  # train | test
        pa.field("input_tokens", pa.int32(), nullable=False),
        pa.field("source_id", pa.string()),  # where in its source the prompt stands
        pa.field("tests", pa.string()),  # Python statements that check an answer's code
    ]
)

RESPONSES = pa.schema(
    [
        pa.field("prompt_id", pa.string(), nullable=False),
        pa.field("model", pa.string(), nullable=False),
        pa.field("response", pa.string()),  # null where the source holds no text (synthetic grids)
        pa.field("output_tokens", pa.int32()),
        pa.field("finish_reason", pa.string()),  # stop | length | null when unknown
        pa.field("generation_digest", pa.string(), nullable=False),
        pa.field("status", pa.string(), nullable=False),  # ok | empty | error | missing
        pa.field("input_tokens", pa.int32()),  # what the server counted, with its chat template
        pa.field("tokens_source", pa.string()),  # usage | recount | null when unknown
        pa.field("error", pa.string()),  # why status is error
    ]
)

LABELS = pa.schema(
    [
        pa.field("prompt_id", pa.string(), nullable=False),
        pa.field("model", pa.string(), nullable=False),
        pa.field("metric", pa.string(), nullable=False),
        pa.field("score", pa.float64()),  # in [0, 1] or null
        pa.field("status", pa.string(), nullable=False),  # ok | missing | judge_failed
        pa.field("reason", pa.string()),
        pa.field("judge_digest", pa.string(), nullable=False),
        pa.field("raw", pa.string()),  # what a judge wrote that could not be read
        pa.field("cut", pa.string()),  # texts it saw only the beginning of, such as "input,reference"
    ]
)


@dataclass(frozen=True)
class GridView:
    """One metric of a grid as dense arrays; P prompts, M models, prompts in the order of the file.

    ``score`` and ``output_tokens`` have shape (P, M) and hold NaN where nothing is known;
    ``input_tokens`` has shape (P,); ``is_train`` has shape (P,). ``digest`` identifies the grid.
    """

    name: str
    digest: str
    synthetic: bool
    metric: str
    models: tuple[str, ...]
    prompt_ids: tuple[str, ...]
    prompts: tuple[str, ...]
    sources: tuple[str, ...]
    is_harmful: NDArray[np.bool_]
    is_train: NDArray[np.bool_]
    input_tokens: NDArray[np.int64]
    output_tokens: NDArray[np.float64]
    score: NDArray[np.float64]

    def rows(self, split: str) -> NDArray[np.int64]:
        """Row numbers of ``train``, ``test`` or ``all`` prompts."""
        if split == "all":
            return np.arange(len(self.prompt_ids), dtype=np.int64)
        return np.flatnonzero(self.is_train == (split == "train")).astype(np.int64)
