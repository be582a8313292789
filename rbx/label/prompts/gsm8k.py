"""GSM8K (train): a word problem; the worked solution, which ends in ``#### number``, is the reference."""

from __future__ import annotations

from rbx.grid.values import Row
from rbx.label.prompts.draft import Draft, Unfit, text_or_blank


def read(row: Row, index: int) -> Draft | Unfit:
    """``gsm8k/row``."""
    problem = text_or_blank(row, "question")
    if not problem.strip():
        return Unfit("without a question")
    prompt = (
        "Work out the answer to this problem. Reason in a few short steps and finish with the number.\n\n"
        f"Problem: {problem}\n\n"
        "The last line must hold nothing but the final number."
    )
    return Draft(prompt, f"gsm8k/{index}", row.text("answer"))
