"""F1 of the words shared with the reference."""

from __future__ import annotations

from collections import Counter
from functools import partial

from rbx.config.base import digest
from rbx.config.labelling import TokenF1Signal
from rbx.label.signals.per_answer import PerAnswer
from rbx.label.signals.reference import against_reference
from rbx.label.signals.words import words


def token_f1(response: str, reference: str) -> float:
    """Harmonic mean of precision and recall over words, in [0, 1]; symmetric, 1 iff the words are the same.

    As in SQuAD's evaluation a word counts as often as it stands in both texts, and two texts without
    any word agree. RouteBalance's ``reference_score`` splits lower-cased text at white space, keeps
    punctuation and articles, and intersects sets, so that it forgives repetition.
    """
    given, wanted = words(response), words(reference)
    if not given and not wanted:
        return 1.0
    shared = (Counter(given) & Counter(wanted)).total()
    return 2 * shared / (len(given) + len(wanted))


def token_f1_signal(spec: TokenF1Signal) -> PerAnswer:
    """The signal of ``kind: token_f1``."""
    return PerAnswer(
        spec.name, digest({"kind": "token_f1", "version": 1}), partial(against_reference, token_f1)
    )
