"""Answers in their journal: which are there, which row of a pair counts, and the texts one at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import cached_property
from types import TracebackType
from typing import Any, NamedTuple

from rbx.errors import DatasetError
from rbx.label.answer import Answer, Question, Stub, stub_of
from rbx.label.answer_row import AnswerRow, AnswerStatus, read_row
from rbx.label.journal import Journal
from rbx.label.recount import TokensSource


class Facts(NamedTuple):
    """What is counted of a pair without its text."""

    status: AnswerStatus
    truncated: bool
    tokens_source: TokensSource | None
    recounted: bool
    tokens_disagree: bool


class _Noted(NamedTuple):
    offset: int
    facts: Facts
    seen: str  # as in ``Stub``; "" where there is no text


class AnswerCounts(NamedTuple):
    """Pairs of one model by status, then what is known of its answers' lengths.

    ``by_usage`` and ``by_recount`` say who counted the tokens, ``uncounted`` that nobody did (errors left
    out); ``recounted`` were counted by both, ``disagreeing`` of them differently.
    """

    ok: int
    empty: int
    error: int
    missing: int
    truncated: int
    by_usage: int
    by_recount: int
    uncounted: int
    recounted: int
    disagreeing: int


class AnswerBook:
    """The answers of ``digests``' models (model → generation digest) to ``questions``; others stay unused.

    Pairs are ordered by prompt, then model, as the two mappings are. Of two rows of a pair the later
    counts. Memory grows with the number of pairs, not with their texts. It is an ``Answers`` of those
    that are ok; close it, or use it as a context manager.
    """

    def __init__(
        self, journal: Journal, digests: Mapping[str, str], questions: Mapping[str, Question]
    ) -> None:
        """Read the journal; raises ``DatasetError`` for a row that holds no answer."""
        self._journal = journal
        self._digests = digests
        self._questions = questions
        self._noted: dict[tuple[str, str], _Noted] = {}
        self._closing = ExitStack()
        known: dict[Facts, Facts] = {}  # the same few objects for all rows
        for offset, document in journal.entries():
            row = self._checked(document, offset)
            if digests.get(row.model) != row.digest or row.prompt_id not in questions:
                continue
            facts = _facts(row)
            seen = stub_of(_answer(row, questions)).seen if row.status == "ok" else ""
            noted = _Noted(offset, known.setdefault(facts, facts), seen)
            self._noted[row.prompt_id, row.model] = noted

    def __enter__(self) -> AnswerBook:
        """The book itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it."""
        self.close()

    def close(self) -> None:
        """Close the file that texts are read from."""
        self._closing.close()

    def status(self, prompt_id: str, model: str) -> AnswerStatus | None:
        """What came of a pair; None where it was not asked yet."""
        noted = self._noted.get((prompt_id, model))
        return noted.facts.status if noted else None

    def counts(self) -> dict[str, AnswerCounts]:
        """By model, over all questions."""
        return {model: self._counts(model) for model in self._digests}

    @cached_property
    def stubs(self) -> Sequence[Stub]:
        """Every answer with a text, by its hash."""
        return [Stub(*pair, noted.seen) for pair, noted in self._ordered() if noted.facts.status == "ok"]

    def load(self, at: int) -> Answer:
        """The answer behind ``stubs[at]``."""
        stub = self.stubs[at]
        row = self._row(self._noted[stub.prompt_id, stub.model].offset)
        return _answer(row, self._questions)

    def answers(self) -> Iterator[Answer]:
        """Every answer with a text."""
        return (self.load(at) for at in range(len(self.stubs)))

    def rows(self) -> Iterator[AnswerRow]:
        """Every pair that was asked, errors included."""
        return (self._row(noted.offset) for _, noted in self._ordered())

    def _ordered(self) -> Iterator[tuple[tuple[str, str], _Noted]]:
        pairs = ((prompt_id, model) for prompt_id in self._questions for model in self._digests)
        return ((pair, self._noted[pair]) for pair in pairs if pair in self._noted)

    def _counts(self, model: str) -> AnswerCounts:
        pairs = ((prompt_id, model) for prompt_id in self._questions)
        all_facts = Counter(self._noted[pair].facts for pair in pairs if pair in self._noted)

        def total(**wanted: object) -> int:
            return sum(
                count
                for facts, count in all_facts.items()
                if all(getattr(facts, name) == value for name, value in wanted.items())
            )

        return AnswerCounts(
            ok=total(status="ok"),
            empty=total(status="empty"),
            error=total(status="error"),
            missing=len(self._questions) - total(),
            truncated=total(truncated=True),
            by_usage=total(tokens_source="usage"),
            by_recount=total(tokens_source="recount"),
            uncounted=total(tokens_source=None) - total(status="error"),
            recounted=total(tokens_source="usage", recounted=True),
            disagreeing=total(tokens_disagree=True),
        )

    @cached_property
    def _read(self) -> Callable[[int], dict[str, Any]]:
        return self._closing.enter_context(self._journal.reader())

    def _row(self, offset: int) -> AnswerRow:
        return self._checked(self._read(offset), offset)

    def _checked(self, document: dict[str, Any], offset: int) -> AnswerRow:
        try:
            return read_row(document)
        except ValueError as error:
            raise DatasetError(
                f"{self._journal.path}, byte {offset}: the row {error}; delete the line to have it made again"
            ) from None


def _answer(row: AnswerRow, questions: Mapping[str, Question]) -> Answer:
    question = questions[row.prompt_id]
    return Answer(question, row.model, row.text or "", row.output_tokens, row.finish_reason)


def _facts(row: AnswerRow) -> Facts:
    recounted = row.recount is not None
    return Facts(row.status, row.truncated, row.tokens_source, recounted, row.tokens_disagree)
