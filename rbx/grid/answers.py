"""What models said: the texts of a grid's answers, which its dense view leaves out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rbx.errors import DatasetError
from rbx.grid.schema import GridView
from rbx.grid.store import read_tables
from rbx.grid.tables import rows_by_cell

Answers = tuple[tuple[str | None, ...], ...]


def read_answers(path: Path, view: GridView, models: Sequence[str]) -> Answers:
    """Of each prompt of ``view``, by ``models``: P × M texts, None where the grid holds none.

    Raises ``DatasetError`` where ``path`` is not the grid of ``view``.
    """
    manifest, tables = read_tables(path)
    if manifest.digest != view.digest:
        raise DatasetError(f"{path}: changed while it was read; run the command again")
    rows = rows_by_cell(tables.responses, tables.prompts["prompt_id"], tuple(models))
    texts: list[str | None] = [*tables.responses["response"].to_pylist(), None]
    return tuple(tuple(texts[row] for row in of_prompt) for of_prompt in rows.tolist())
