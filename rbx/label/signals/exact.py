"""Exact match with the reference by SQuAD's conventions."""

from __future__ import annotations

from functools import partial

from rbx.config.base import digest
from rbx.config.labelling import ExactSignal
from rbx.label.signals.per_answer import PerAnswer
from rbx.label.signals.reference import against_reference
from rbx.label.signals.words import words


def exact_match(response: str, reference: str) -> float:
    """1.0 where both texts have the same words in the same order, else 0.0."""
    return float(words(response) == words(reference))


def exact_signal(spec: ExactSignal) -> PerAnswer:
    """The signal of ``kind: exact``."""
    return PerAnswer(
        spec.name, digest({"kind": "exact", "version": 1}), partial(against_reference, exact_match)
    )
