"""CodeUltraFeedback: an instruction; the answer that its annotators rated highest is the reference."""

from __future__ import annotations

import math

from rbx.grid.values import Row
from rbx.label.prompts.draft import Draft, Unfit, entries, text_or_blank


def read(row: Row, index: int) -> Draft | Unfit:
    """``code_ultra_feedback/row``."""
    return Draft(
        prompt=text_or_blank(row, "instruction"),
        source_id=f"code_ultra_feedback/{index}",
        reference=_best(row),
    )


def _best(row: Row) -> str | None:
    """The answer with the highest rating, the first of equal ones; None where none is rated."""
    answer_of_model: dict[str, str] = {}
    for answer in entries(row, "responses"):
        answer_of_model.setdefault(answer.text("model"), text_or_blank(answer, "response"))
    best, best_rating = None, -math.inf
    for annotation in entries(row, "annotations"):
        rating = _rating(annotation.optional_text("rating"))
        answered = answer_of_model.get(annotation.text("model"))
        if rating is not None and answered and rating > best_rating:
            best, best_rating = answered, rating
    return best


def _rating(given: str | None) -> float | None:
    """The hub's ratings are strings; an annotator that gave none left words such as N/A."""
    try:
        rating = float(given) if given is not None else math.nan
    except ValueError:
        return None
    return rating if math.isfinite(rating) else None
