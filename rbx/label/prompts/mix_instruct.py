"""MixInstruct: an instruction and its input as one text; the data set's output is the reference."""

from __future__ import annotations

from rbx.grid.values import Row
from rbx.label.prompts.draft import Draft, Unfit, text_or_blank


def read(row: Row, index: int) -> Draft | Unfit:
    """The row's own id, which begins with the set it came from, such as ``dolly_15k``."""
    parts = (text_or_blank(row, "instruction"), text_or_blank(row, "input"))
    return Draft(
        prompt=" ".join(part for part in parts if part.strip()),
        source_id=row.text("id"),
        reference=text_or_blank(row, "output"),
    )
