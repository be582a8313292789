"""How ZeroEval's answers are graded: the first answer that a text closes, against the reference."""

from __future__ import annotations

import json
import re
from typing import NamedTuple

# A quoted value ends with its quote; a bare one (a number, a list, an object) with the first sign after it
# that ends it, since a text that stops within it would give another.
_ANSWER = re.compile(
    r'"answer"\s*:\s*(?:"(?P<quoted>(?:[^"\\]|\\.)*)"'
    r'|(?P<bare>\[[^\]]*\]|\{[^}]*\}|[^\s",{}\[\]]+)[^\S\n]*[,}\n])',
    re.DOTALL,
)
_NUMBER = re.compile(r"-?(?:\d+\.?\d*|\.\d+)")
_NUMERIC = frozenset({"math-l5", "gsm"})
_LITERAL = frozenset({"crux"})
GRADED_SOURCES = _NUMERIC | _LITERAL


class FinalAnswer(NamedTuple):
    """An answer, and the number of characters of its text from which on it stands there."""

    value: str
    end: int


def final_answer(text: str) -> FinalAnswer | None:
    """The first complete value of an ``"answer"`` field in ``text``, or None.

    What follows never changes it: a text that begins with one that has an answer has the same.
    """
    found = _ANSWER.search(text)
    if found is None:
        return None
    return FinalAnswer(_decoded(found), found.end())


def grade(text: str, reference: str, source: str) -> float:
    """1.0 where the final answer of ``text`` is the reference, else 0.0, also where there is none.

    ``source`` is one of ``GRADED_SOURCES``: the first numbers are compared, or the texts without the quotes
    around them. It is the rule that ``read_zeroeval``'s labels were published by, written anew: how many of a
    grid's labels it gives must be measured.
    """
    found = final_answer(text)
    return 0.0 if found is None else float(_agree(found.value, reference, source))


def _decoded(found: re.Match[str]) -> str:
    written = found["bare"] if found["quoted"] is None else f'"{found["quoted"]}"'
    try:
        return str(json.loads(written, strict=False))
    except (ValueError, RecursionError):  # thousands of brackets, as of a model that repeats itself
        return str(found["bare"] if found["quoted"] is None else found["quoted"])


def _agree(answer: str, reference: str, source: str) -> bool:
    if source in _NUMERIC:
        given, wanted = _first_number(answer), _first_number(reference)
        return given is not None and given == wanted
    return _literal(answer) == _literal(reference)


def _first_number(text: str) -> float | None:
    found = _NUMBER.search(text.replace(",", ""))
    return None if found is None else float(found[0])


def _literal(text: str) -> str:
    """Without the quotes around a string, and with line breaks as a literal writes them."""
    return text.replace("\n", "\\n").strip("\"'")
