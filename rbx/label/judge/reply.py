"""A judge's reply, read strictly: one JSON object with a score from 0 to 10 and a reason, or a fault."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, NamedTuple

LOWEST, HIGHEST = 0.0, 10.0
RAW_CHARACTERS = 8192

_PLAIN_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?")


class Reply(NamedTuple):
    """What a judge wrote."""

    text: str
    finish_reason: str | None = None


class Judgement(NamedTuple):
    """A score in [0, 10] and why."""

    score: float
    reason: str


@dataclass
class JudgeFault(Exception):
    """No judgement: ``raw`` is what the judge wrote instead, or None where it wrote nothing at all.

    ``unreached`` says that the fault may be the server's rather than this question's.
    """

    why: str
    raw: str | None = None
    unreached: bool = False

    def __str__(self) -> str:
        """Why there is no judgement, without the raw text."""
        return self.why


def read_judgement(reply: Reply) -> Judgement:
    """Read a reply; raises ``JudgeFault`` with its text for all that is not one clear judgement.

    Prose and code fences around the object are let be; everything in braces must be whole, and where there
    are several objects they must say the same.
    """
    text = encodable(reply.text)
    try:
        if reply.finish_reason == "length":
            raise ValueError("the reply was cut at max_tokens")
        return _judgement(_only_object(text.rpartition("</think>")[2]))
    except ValueError as error:
        raise JudgeFault(str(error), raw=text[:RAW_CHARACTERS]) from None


def encodable(text: str) -> str:
    """``text`` with lone surrogates replaced, which JSON can carry and UTF-8 can't."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _only_object(text: str) -> dict[str, Any]:
    decoder = json.JSONDecoder(object_pairs_hook=_without_twins)
    found: list[dict[str, Any]] = []
    at = text.find("{")
    while at >= 0:
        try:
            value, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            # Never look further inside: an object within a cut one is no judgement.
            raise ValueError("the reply's JSON is cut or malformed") from None
        if text[:at].rstrip().endswith("[") or text[end:].lstrip().startswith("]"):
            raise ValueError("the reply is a list, not one object")
        found.append(value)
        at = text.find("{", end)
    if not found:
        raise ValueError("the reply holds no JSON object" if text.strip() else "the reply is empty")
    if any(other != found[0] for other in found[1:]):
        raise ValueError(f"the reply holds {len(found)} objects that differ")
    return found[0]


def _without_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    whole = dict(pairs)
    if len(whole) < len(pairs):
        raise ValueError("a key is given twice")
    return whole


def _judgement(whole: dict[str, Any]) -> Judgement:
    for key in ("score", "reason"):
        if key not in whole:
            raise ValueError(f"the reply's object has no {key}")
    score, reason = whole["score"], whole["reason"]
    if not isinstance(reason, str):
        raise ValueError("the reason is no text")
    if isinstance(score, str) and _PLAIN_NUMBER.fullmatch(score.strip()):
        score = float(score)
    if isinstance(score, bool) or not isinstance(score, int | float):
        raise ValueError(f"the score is no number: {_shown(score)}")
    if not LOWEST <= score <= HIGHEST:  # NaN is not
        raise ValueError(f"the score is not from 0 to 10: {_shown(score)}")
    return Judgement(float(score) + 0.0, encodable(reason))  # "-0" is 0


def _shown(value: Any) -> str:
    return json.dumps(value)[:40]
