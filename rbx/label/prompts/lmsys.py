"""LMSYS-Chat-1M: the first exchange of each English conversation; what the model said is the reference."""

from __future__ import annotations

from itertools import pairwise

from rbx.grid.values import Row
from rbx.label.prompts.draft import Draft, Unfit, entries, text_or_blank

MIN_REFERENCE_WORDS = 3


def read(row: Row, index: int) -> Draft | Unfit:
    """``lmsys/conversation id``; without an exchange, or with a shorter reference, no prompt."""
    if row.text("language") != "English":
        return Unfit("not in English")
    for asked, answered in pairwise(entries(row, "conversation")):
        if (asked.text("role"), answered.text("role")) != ("user", "assistant"):
            continue
        reference = text_or_blank(answered, "content")
        if len(reference.split()) < MIN_REFERENCE_WORDS:
            return Unfit(f"reference shorter than {MIN_REFERENCE_WORDS} words")
        conversation = row.text("conversation_id")
        return Draft(text_or_blank(asked, "content"), f"lmsys/{conversation}", reference)
    return Unfit("no exchange of user and assistant")
