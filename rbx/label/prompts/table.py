"""Anybody's file of prompts, by a map of its columns."""

from __future__ import annotations

from rbx.config.labelling import PromptColumns
from rbx.grid.values import Row
from rbx.label.prompts.draft import Draft, Reader, Unfit, text_or_blank


def table_reader(name: str, columns: PromptColumns) -> Reader:
    """``source/id``, by the mapped columns; else the source's name and the row's position."""

    def optional(row: Row, column: str | None) -> str | None:
        return row.optional_text(column) if column else None

    def read(row: Row, index: int) -> Draft | Unfit:
        source, identity = optional(row, columns.source), optional(row, columns.id)
        return Draft(
            prompt=text_or_blank(row, columns.prompt),
            source_id=f"{source or name}/{identity or index}",
            reference=optional(row, columns.reference),
            is_harmful=row.flag(columns.is_harmful) if columns.is_harmful else False,
            tests=optional(row, columns.tests),
            source=source,
        )

    return read
