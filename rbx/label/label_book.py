"""Scores in the journal of labels: which are there already, and which one of an answer counts."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

from rbx.label.answer import Answer, Verdict
from rbx.label.journal import Journal

Key = tuple[str, str, str, str]  # metric, prompt, model, hash of the answer's text


def key_of(metric: str, answer: Answer) -> Key:
    """What a score belongs to: a new text of the same model needs a new score."""
    text = hashlib.sha256(answer.response.encode()).hexdigest()[:16]
    return metric, answer.question.prompt_id, answer.model, text


class LabelBook:
    """Scores by the signals that ``digests`` names (metric → digest); others stay in the file, unused."""

    def __init__(self, journal: Journal, digests: Mapping[str, str]) -> None:
        """Read the journal; memory grows with the number of scores, not with their reasons."""
        self._journal = journal
        self._digests = digests
        self._offsets: dict[Key, int] = {}
        self._failed: set[Key] = set()
        for offset, row in journal.entries():
            metric = row["metric"]
            if digests.get(metric) == row["digest"]:
                self._note((metric, row["prompt_id"], row["model"], row["answer"]), offset, row["status"])

    def _note(self, key: Key, offset: int, status: str) -> None:
        self._offsets[key] = offset
        (self._failed.add if status == "judge_failed" else self._failed.discard)(key)

    def has(self, key: Key, *, retry_failed: bool = False) -> bool:
        """Whether the answer has its score; with ``retry_failed`` a failed judgement is none."""
        return key in self._offsets and not (retry_failed and key in self._failed)

    def row(self, key: Key, verdict: Verdict) -> dict[str, Any]:
        """The journal's row of a verdict."""
        metric, prompt_id, model, text = key
        return {
            "prompt_id": prompt_id,
            "model": model,
            "metric": metric,
            "digest": self._digests[metric],
            "answer": text,
            "score": verdict.score,
            "status": verdict.status,
            "reason": verdict.reason,
            "raw": verdict.raw,
            "cut": verdict.cut,
        }

    def add(self, row: dict[str, Any]) -> None:
        """Append a row of ``row`` and count it."""
        offset = self._journal.append(row)
        self._note((row["metric"], row["prompt_id"], row["model"], row["answer"]), offset, row["status"])

    def verdicts(self, keys: Iterator[Key]) -> Iterator[tuple[Key, Verdict]]:
        """The verdicts of those keys that have one."""
        with self._journal.reader() as read:
            for key in keys:
                if key in self._offsets:
                    row = read(self._offsets[key])
                    fields = {name: row[name] for name in ("score", "status", "reason", "raw", "cut")}
                    yield key, Verdict(**fields)
