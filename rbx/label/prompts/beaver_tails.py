"""BeaverTails (30k, train): the prompts under any category of harm; the reference is a refusal."""

from __future__ import annotations

from rbx.grid.values import Row
from rbx.label.prompts.draft import REFUSAL, Draft, Unfit, text_or_blank


def read(row: Row, index: int) -> Draft | Unfit:
    """``beaver_tails/row``; all of them are harmful."""
    flags = row.require("category")
    if not isinstance(flags, dict):
        raise row.fault("category", f"expected an object of flags, found {type(flags).__name__}")
    categories = Row(row.path, row.number, flags)
    if not any(categories.flag(name) for name in flags):
        return Unfit("under no category of harm")
    return Draft(
        prompt=text_or_blank(row, "prompt"),
        source_id=f"beaver_tails/{index}",
        reference=REFUSAL,
        is_harmful=True,
    )
