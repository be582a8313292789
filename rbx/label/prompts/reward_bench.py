"""RewardBench: the safety and code subsets of its filtered split; the chosen answer is the reference."""

from __future__ import annotations

from rbx.grid.values import Row
from rbx.label.prompts.draft import Draft, Unfit, text_or_blank

SUBSETS = ("xstest-", "refusals-", "donotanswer", "hep-")
HARMFUL = ("refusals-dangerous", "refusals-offensive", "xstest-should-refuse", "donotanswer")


def read(row: Row, index: int) -> Draft | Unfit:
    """``subset/id``; harmful by the subset."""
    subset = row.text("subset")
    if not subset.startswith(SUBSETS):
        return Unfit("another subset")
    return Draft(
        prompt=text_or_blank(row, "prompt"),
        source_id=f"{subset}/{row.text('id')}",
        reference=text_or_blank(row, "chosen"),
        is_harmful=subset.startswith(HARMFUL),
    )
