"""A source of the spec with its files at hand: which rows to read, and what is on record of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from rbx.config.labelling import PromptSource, TablePrompts
from rbx.label.prompts.files import public_files, table_files
from rbx.label.prompts.public import PUBLIC
from rbx.label.prompts.reading import RowSource
from rbx.label.prompts.table import table_reader

Say = Callable[[str], None]


class OpenSource(NamedTuple):
    """Rows to read, and where they came from."""

    spec: PromptSource
    rows: RowSource
    origin: dict[str, Any]


def open_source(spec: PromptSource, position: int, say: Say) -> OpenSource:
    """Find a source's files, or fetch them; raises ``DatasetError`` where that fails.

    ``position`` is its place in the spec.
    """
    if isinstance(spec, TablePrompts):
        files = table_files(spec.path)
        columns = tuple({name: None for name in spec.columns.model_dump().values() if name})
        rows = RowSource(spec.name, files.paths, columns, table_reader(spec.name, spec.columns))
    else:
        dataset = PUBLIC[spec.kind]
        if spec.path is None:
            say(f"fetching {spec.hub or dataset.hub} from the hub")
        files = public_files(spec, dataset, position)
        rows = RowSource(spec.name or spec.kind, files.paths, dataset.columns, dataset.read)
    return OpenSource(spec, rows, {"kind": spec.kind, **files.provenance})
