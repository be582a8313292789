"""The folder beside a grid that holds what its build has so far: prompts, answers and scores."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from rbx.config.base import digest
from rbx.config.labelling import Prompts
from rbx.durable import write_table
from rbx.errors import DatasetError
from rbx.grid.files import sha256_of
from rbx.grid.split import prompt_id
from rbx.label.answer import Question
from rbx.label.progress import Progress
from rbx.label.prompts.collect import Collected, collect

SCHEMA = pa.schema(
    [
        pa.field("prompt_id", pa.string(), nullable=False),
        pa.field("prompt", pa.string(), nullable=False),
        pa.field("source", pa.string(), nullable=False),
        pa.field("source_id", pa.string()),
        pa.field("reference", pa.string()),
        pa.field("tests", pa.string()),
        pa.field("is_harmful", pa.bool_(), nullable=False),
        pa.field("input_tokens", pa.int32(), nullable=False),
    ]
)
NOTES = b"rbx"


class Workspace:
    """``NAME.work`` beside the grid ``NAME``; deleting it starts the build anew."""

    def __init__(self, grid: Path, folder: Path | None = None) -> None:
        """The workspace of a grid directory, or in ``folder``, whether it exists or not."""
        self.folder = folder or grid.with_name(f"{grid.name}.work")
        self.prompts = self.folder / "prompts.parquet"
        self.answers = self.folder / "answers.jsonl"
        self.labels = self.folder / "labels.jsonl"

    def collected(self, spec: Prompts, progress: Progress) -> Collected:
        """The prompts collected for this spec before, or else now; raises ``DatasetError``.

        They stay what they were even if their source has changed since, because answers belong to them.
        """
        identity = digest(spec.model_dump(mode="json"))
        if self.prompts.is_file():
            table, notes = self._read()
            if notes.get("spec") == identity:
                progress.say(f"{table.num_rows:,} prompts as collected before")
                for path in _changed(spec, notes["provenance"]):
                    progress.say(f"{path} has changed since; delete {self.prompts} to collect anew")
                rows = zip(*(table[name].to_pylist() for name in SCHEMA.names), strict=True)
                return Collected(tuple(Question(*row) for row in rows), notes["provenance"])
        found = collect(spec, progress.say)
        self._write(found, identity)
        return found

    def _read(self) -> tuple[pa.Table, dict[str, Any]]:
        try:
            table = pq.read_table(self.prompts, schema=SCHEMA)
            notes = json.loads((pq.read_schema(self.prompts).metadata or {})[NOTES])
        except (pa.ArrowException, OSError, KeyError, ValueError, RecursionError) as error:
            raise self._not_prompts(str(error)) from None
        if not isinstance(notes, dict) or not isinstance(notes.get("provenance"), dict):
            raise self._not_prompts("without their provenance")
        for kind in SCHEMA:
            if not kind.nullable and table[kind.name].null_count:
                raise self._not_prompts(f"column {kind.name} holds nulls")
        pairs = zip(table["prompt_id"].to_pylist(), table["prompt"].to_pylist(), strict=True)
        if any(prompt_id(text) != known for known, text in pairs):
            raise self._not_prompts("a text under another text's id")
        return table, notes

    def _not_prompts(self, why: str) -> DatasetError:
        return DatasetError(
            f"{self.prompts}: not the prompts of a build ({why}); delete it to collect them again"
        )

    def _write(self, found: Collected, identity: str) -> None:
        columns = list(zip(*found.questions, strict=True)) or [()] * len(SCHEMA)
        arrays = [pa.array(column, kind.type) for column, kind in zip(columns, SCHEMA, strict=True)]
        notes = json.dumps({"spec": identity, "provenance": found.provenance}).encode()
        table = pa.Table.from_arrays(arrays, schema=SCHEMA.with_metadata({NOTES: notes}))
        self.folder.mkdir(parents=True, exist_ok=True)
        write_table(table, self.prompts)


def _changed(spec: Prompts, provenance: dict[str, Any]) -> list[Path]:
    """Local files that are no longer those that were read."""
    changed = []
    for source in spec.sources:
        read = provenance["prompts"][source.name or source.kind]["files"]
        if source.path is not None and source.path.is_file():
            known = read.get(source.path.name)
            if known is not None and sha256_of(source.path) != known:
                changed.append(source.path)
    return changed
