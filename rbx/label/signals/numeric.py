"""The final number of an answer against the reference's."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from functools import partial

from rbx.config.base import digest
from rbx.config.labelling import NumericSignal
from rbx.label.answer import Answer, Verdict, missing
from rbx.label.signals.per_answer import PerAnswer
from rbx.label.signals.reference import NO_REFERENCE

NO_NUMBER = Verdict(0.0, "ok", "no number in the answer")
NO_REFERENCE_NUMBER = missing("no number in the reference")

# What stands for a sign, a comma or a fraction in LaTeX and typography, as plain text.
_PLAIN = (
    (re.compile("[\u2212\ufe63\uff0d]"), "-"),
    (re.compile(r"\{,\}|(?<=\d)(?:\\,|[\u00a0\u2009\u202f])(?=\d{3})"), ","),
    (re.compile(r"\\[dt]?frac\s?\{(\d+)\}\s?\{(\d+)\}"), r" \1/\2"),
    (re.compile(r"\\times|\\cdot|×"), "x"),
    (re.compile(r"\\(?=[$%])"), ""),
)
_NUMBER = re.compile(
    r"(?<![A-Za-z0-9])(?<!\d\.)"  # no part of a word, nor a decimal place of another number
    r"(?P<sign>[-+])?(?:[$€£¥₹]\s?(?P<inner>[-+])?)?"
    r"(?:(?:(?P<whole>\d{1,3})\s)?(?P<over>\d+)/(?P<under>\d+)(?![\d/])"
    r"|(?P<digits>(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?|(?<!\.)\.\d+)"
    r"(?:[eE](?P<exponent>[-+]?\d+)(?!\w)|\s?[x*]\s?10\s?\^\s?\{?(?P<power>[-+]?\d+)\}?)?)",
    re.ASCII,
)
_HEADING = re.compile(r"[.):]\s+[A-Za-z]")
_ANSWER_IS = re.compile(r"\banswer\b[\"'*]*\s*(?:is|:|=)", re.ASCII | re.IGNORECASE)
_BOXED = "\\boxed{"


def final_number(text: str) -> float | None:
    """The number that ``text`` ends up with, or None; finite.

    The first that follows the last ``####`` (GSM8K's mark; a numbered heading of Markdown is none), else
    the last within the last ``\\boxed{}``, else the first on the line after the last "answer is", "answer:"
    or ``"answer":`` (after the last ``=`` there, where a sum is shown), else the last of the text: that of
    its last line with a number.
    ``1,234.50``, ``$3``, ``20%`` (as 20), ``3/4``, ``1 3/4``, ``\\frac{3}{4}``, ``1.2e5`` and ``1.2 x 10^5``
    are numbers; numbers in words ("eighteen", "2 million") and decimal commas are not known.
    """
    for pattern, replacement in _PLAIN:
        text = pattern.sub(replacement, text)
    rules = (_after_hashes, _boxed, _after_answer_is, _last)
    return next((found for rule in rules if (found := rule(text)) is not None), None)


def numbers_agree(given: float, wanted: float, tolerance: float) -> bool:
    """Whether they differ by at most ``tolerance`` of ``wanted``."""
    return abs(given - wanted) <= tolerance * abs(wanted)


def numeric_signal(spec: NumericSignal) -> PerAnswer:
    """The signal of ``kind: numeric``."""
    identity = digest({"kind": "numeric", "version": 1, "tolerance": spec.tolerance})
    return PerAnswer(spec.name, identity, partial(_rate, spec.tolerance))


def _rate(tolerance: float, answer: Answer) -> Verdict:
    reference = answer.question.reference
    if reference is None or not reference.strip():
        return NO_REFERENCE
    wanted = final_number(reference)
    if wanted is None:
        return NO_REFERENCE_NUMBER
    given = final_number(answer.response)
    if given is None:
        return NO_NUMBER
    return Verdict(float(numbers_agree(given, wanted, tolerance)), "ok")


def _after_hashes(text: str) -> float | None:
    for part in reversed(text.split("####")[1:]):
        line = part.split("\n", 1)[0]
        for start, end, value in _numbers(line):
            words_before = any(letter.isalpha() for letter in line[:start])
            if not words_before and not _HEADING.match(line, end):
                return value
            break
    return None


def _boxed(text: str) -> float | None:
    start = text.rfind(_BOXED)
    if start < 0:
        return None
    inner = text[start + len(_BOXED) :].split("\n", 1)[0]
    depth = 1
    for place, letter in enumerate(inner):
        depth += (letter == "{") - (letter == "}")
        if depth == 0:
            return _last(inner[:place])
    return _last(inner)


def _after_answer_is(text: str) -> float | None:
    for line in reversed(text.split("\n")):
        marks = [mark.end() for mark in _ANSWER_IS.finditer(line)]
        numbers = list(_numbers(line)) if marks else []
        for mark in reversed(marks):
            if numbers and numbers[-1][0] >= mark:
                result = line.rfind("=", mark)
                if numbers[-1][0] <= result:
                    result = mark
                return next(value for start, _, value in numbers if start >= max(mark, result))
    return None


def _last(text: str) -> float | None:
    last = None
    for _, _, value in _numbers(text):
        last = value
    return last


def _numbers(text: str) -> Iterator[tuple[int, int, float]]:
    for match in _NUMBER.finditer(text):
        value = _value(match)
        if math.isfinite(value):
            negative = "-" in (match["sign"], match["inner"]) and not _follows_operand(match)
            yield match.start(), match.end(), -value if negative else value


def _value(match: re.Match[str]) -> float:
    if match["over"]:
        under = float(match["under"])
        part = float(match["over"]) / under if under else math.nan
        return float(match["whole"] or 0) + part
    exponent = match["exponent"] or match["power"] or "0"
    return float(f"{match['digits'].replace(',', '')}e{exponent}")


def _follows_operand(match: re.Match[str]) -> bool:
    """Whether the minus subtracts, as in ``16 -3`` or ``pages 3-5``, rather than being a sign."""
    before = match.string[max(0, match.start() - 3) : match.start()].rstrip()
    return bool(before) and (before[-1].isdigit() or before[-1] in ")]%")
