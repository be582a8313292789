"""Signals that compare an answer's text with its question's reference."""

from __future__ import annotations

from collections.abc import Callable

from rbx.label.answer import Answer, Verdict, missing

NO_REFERENCE = missing("no reference")


def against_reference(agreement: Callable[[str, str], float], answer: Answer) -> Verdict:
    """``agreement(response, reference)``, or missing where there is no reference."""
    reference = answer.question.reference
    if reference is None or not reference.strip():
        return NO_REFERENCE
    return Verdict(agreement(answer.response, reference), "ok")
