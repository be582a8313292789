"""Scores in the journal of labels: which are there already, and which one of an answer counts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from rbx.errors import DatasetError
from rbx.grid.harvest import LabelRow
from rbx.label.answer import Signal, Stub, Verdict
from rbx.label.journal import Journal, encodable

Key = tuple[str, Stub]  # metric, and the answer with all that it was scored against


def label_rows(signals: Sequence[Signal], verdicts: Iterable[tuple[Key, Verdict]]) -> Iterator[LabelRow]:
    """Verdicts of these signals as rows of a grid."""
    digests = {signal.name: signal.digest for signal in signals}
    for (metric, stub), verdict in verdicts:
        yield LabelRow(
            key=stub.prompt_id,
            model=stub.model,
            metric=metric,
            score=verdict.score,
            status=verdict.status,
            reason=verdict.reason,
            judge_digest=digests[metric],
            raw=verdict.raw,
            cut=verdict.cut,
        )


class LabelBook:
    """Scores by the signals that ``digests`` names (metric → digest); others stay in the file, unused."""

    def __init__(self, journal: Journal, digests: Mapping[str, str]) -> None:
        """Read the journal; memory grows with the number of scores, not with their reasons."""
        self._journal = journal
        self._digests = digests
        self._offsets: dict[Key, int] = {}
        self._failed: set[Key] = set()
        self._missing: dict[Key, Verdict] = {}
        for offset, row in journal.entries():
            _check(row, f"{journal.path}, byte {offset}")
            if digests.get(row["metric"]) == row["digest"]:
                self._note(row, offset)

    def _note(self, row: dict[str, Any], offset: int) -> None:
        key = row["metric"], Stub(row["prompt_id"], row["model"], row["answer"])
        self._offsets[key] = offset
        (self._failed.add if row["status"] == "judge_failed" else self._failed.discard)(key)

    def note_missing(self, key: Key, verdict: Verdict) -> None:
        """A signal does not apply. That is found out anew in each run: it costs nothing and may change."""
        self._missing[key] = verdict

    def count(self, metric: str) -> int:
        """How many scores of a metric there are."""
        return sum(1 for named, _ in self._offsets if named == metric)

    def has(self, key: Key, *, retry_failed: bool = False) -> bool:
        """Whether the answer has its score; with ``retry_failed`` a failed judgement is none."""
        return key in self._offsets and not (retry_failed and key in self._failed)

    def row(self, key: Key, verdict: Verdict) -> dict[str, Any]:
        """The journal's row of a verdict."""
        metric, answer = key
        return {
            "prompt_id": answer.prompt_id,
            "model": answer.model,
            "metric": metric,
            "digest": self._digests[metric],
            "answer": answer.seen,
            "score": verdict.score,
            "status": verdict.status,
            "reason": verdict.reason,
            "raw": verdict.raw,
            "cut": verdict.cut,
        }

    def add(self, row: dict[str, Any]) -> None:
        """Append a row of ``row`` and count it."""
        self._note(row, self._journal.append(row))

    def verdicts(self, keys: Iterable[Key]) -> Iterator[tuple[Key, Verdict]]:
        """The verdicts of those keys that have one."""
        with self._journal.reader() as read:
            for key in keys:
                if key in self._offsets:
                    row = read(self._offsets[key])
                    fields = {name: row[name] for name in ("score", "status", "reason", "raw", "cut")}
                    yield key, Verdict(**fields)
                elif key in self._missing:
                    yield key, self._missing[key]


def _check(row: dict[str, Any], where: str) -> None:
    """Refuse a row that no ``LabelBook`` has written."""
    fault = _fault(row)
    if fault is not None:
        raise DatasetError(f"{where}: the row {fault}; delete the line to have it made again")


def _fault(row: dict[str, Any]) -> str | None:
    if row.keys() != _KEYS:
        return f"holds the keys {', '.join(sorted(row))}, not {', '.join(sorted(_KEYS))}"
    for name in _KEYS - {"score"}:
        value = row[name]
        if not (isinstance(value, str) or (value is None and name in _OPTIONAL)):
            return f"has {name} {value!r}, which is no text"
        if value is not None and not encodable(value):
            return f"has a {name} that is not valid Unicode"
    score, status = row["score"], row["status"]
    if status == "ok":
        number = isinstance(score, (int, float)) and not isinstance(score, bool)
        return None if number and 0 <= score <= 1 else f"has score {score!r}, which is not in [0, 1]"
    if status != "judge_failed":
        return f"has status {status!r}"
    return None if score is None else f"has score {score!r} beside status {status}"


_OPTIONAL = frozenset({"reason", "raw", "cut"})
_KEYS = frozenset({"prompt_id", "model", "metric", "digest", "answer", "score", "status"}) | _OPTIONAL
