"""A judge's reply, read strictly: one JSON object with a score from 0 to 10 and a reason, or a fault."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

LOWEST, HIGHEST = 0.0, 10.0
RAW_CHARACTERS = 8192
REASON_CHARACTERS = 8192
REPLY_CHARACTERS = 1 << 20

_MARK = re.compile(r"[{\[\]]|</?think>")
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

    Prose, code fences and closed ``<think>`` blocks around the object are let be; everything else in braces
    must be whole, in no list, and where there are several objects they must say the same. A reason is cut
    at ``REASON_CHARACTERS``.
    """
    text = encodable(reply.text)
    try:
        if reply.finish_reason == "length":
            raise ValueError("the reply was cut at max_tokens")
        if len(text) > REPLY_CHARACTERS:
            raise ValueError(f"the reply is longer than {REPLY_CHARACTERS:,} characters")
        return _judgement(_only_object(text))
    except ValueError as error:
        raise JudgeFault(str(error), raw=text[:RAW_CHARACTERS]) from None
    except RecursionError:  # to compare or to show what was just short of too deep to read
        raise JudgeFault("the reply's JSON is nested too deeply", raw=text[:RAW_CHARACTERS]) from None


def encodable(text: str) -> str:
    """``text`` with lone surrogates replaced, which JSON can carry and UTF-8 can't."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _only_object(text: str) -> dict[str, Any]:
    found = list(_objects(text))
    if not found:
        raise ValueError("the reply holds no JSON object" if text.strip() else "the reply is empty")
    if any(other != found[0] for other in found[1:]):
        raise ValueError(f"the reply holds {len(found)} objects that differ")
    return found[0]


def _objects(text: str) -> Iterator[dict[str, Any]]:
    """The objects of a reply in one pass, so that no reply takes more time than its length."""
    decoder = json.JSONDecoder(object_pairs_hook=_without_twins)
    any_yet, open_lists = False, 0
    at = 0
    while mark := _MARK.search(text, at):
        at = mark.end()
        if mark[0] == "<think>":
            at = text.find("</think>", at) + len("</think>")
            if at < len("</think>"):
                raise ValueError("the reply's <think> is not closed, so what it holds is no judgement yet")
        elif mark[0] == "</think>":
            # A chat template may have opened it in the prompt: all so far was thought.
            if any_yet:
                raise ValueError("the reply holds an object before </think>")
            open_lists = 0
        elif mark[0] == "[":
            open_lists += 1
        elif mark[0] == "]":
            if any_yet and not open_lists:
                raise ValueError("the reply is a list, not one object")
            open_lists = max(0, open_lists - 1)
        else:
            try:
                value, at = decoder.raw_decode(text, mark.start())
            except (ValueError, RecursionError):
                # Never look further inside: an object within a cut one is no judgement.
                raise ValueError("the reply's JSON is cut or malformed") from None
            if open_lists:
                raise ValueError("the reply is a list, not one object")
            any_yet = True
            yield value


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
    return Judgement(float(score) + 0.0, encodable(reason)[:REASON_CHARACTERS])  # "-0" is 0


def _shown(value: Any) -> str:
    return json.dumps(value)[:40]
