"""One row of ``answers.jsonl``: what came of asking one model one question."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, get_args

from rbx.label.completion import Completion
from rbx.label.journal import encodable
from rbx.label.recount import TokensSource, count_tokens, disagrees
from rbx.label.tokenizer import TokenCounter

AnswerStatus = Literal["ok", "empty", "error"]
FinishReason = Literal["stop", "length"]

# vLLM's words for an answer that it gave up.
_GIVEN_UP = frozenset({"abort", "error"})


class AnswerRow(NamedTuple):
    """An answer, or why there is none.

    ``status`` is empty where the text is blank; ``finish_reason`` is None where the server gave none or
    another than stop and length, which then stands in ``error``. ``text`` is None in an error. Tokens are
    explained in ``rbx.label.recount``.
    """

    prompt_id: str
    model: str
    digest: str
    status: AnswerStatus
    text: str | None
    finish_reason: FinishReason | None
    input_tokens: int | None
    output_tokens: int | None
    tokens_source: TokensSource | None
    recount: int | None
    served_model: str | None
    error: str | None

    @property
    def truncated(self) -> bool:
        """Whether the limit of tokens ended the answer."""
        return self.finish_reason == "length"

    @property
    def tokens_disagree(self) -> bool:
        """Whether server and recount tell different lengths."""
        return disagrees(self.output_tokens, self.tokens_source, self.recount)


class Pair(NamedTuple):
    """Which answer a row is about: prompt, model, and how the model was asked."""

    prompt_id: str
    model: str
    digest: str


def row_of_answer(pair: Pair, completion: Completion, counter: TokenCounter | None) -> AnswerRow:
    """The row of what a server or an engine answered."""
    reason = completion.finish_reason
    if reason in _GIVEN_UP:
        return row_of_error(pair, f"the server gave the answer up: finish_reason {reason}")
    tokens = count_tokens(completion, counter)
    known: FinishReason | None = "stop" if reason == "stop" else "length" if reason == "length" else None
    return AnswerRow(
        *pair,
        status="ok" if completion.text.strip() else "empty",
        text=completion.text,
        finish_reason=known,
        input_tokens=tokens.input_tokens,
        output_tokens=tokens.output_tokens,
        tokens_source=tokens.source,
        recount=tokens.recount,
        served_model=completion.served_model,
        error=None if known or reason is None else f"finish_reason {reason}",
    )


def row_of_error(pair: Pair, error: str) -> AnswerRow:
    """The row of a question that was not answered."""
    return AnswerRow(*pair, "error", None, None, None, None, None, None, None, error)


def read_row(row: Mapping[str, Any]) -> AnswerRow:
    """A journal's row, checked; raises ``ValueError`` for what is none of an answer."""
    if row.keys() != _KEYS:
        raise ValueError(f"holds the keys {', '.join(sorted(row))}, not {', '.join(AnswerRow._fields)}")
    read = AnswerRow(**row)
    for name, allowed in _ALLOWED.items():
        if row[name] not in allowed:
            raise ValueError(f"has {name} {row[name]!r}")
    for name in _TEXTS:
        if not isinstance(row[name], str):
            raise ValueError(f"has {name} {row[name]!r}, which is no text")
    for name in _COUNTS:
        if row[name] is not None and not (type(row[name]) is int and 0 <= row[name] < 2**31):
            raise ValueError(f"has {name} {row[name]!r}, which is no count")
    for name in ("text", "served_model", "error"):
        if not (row[name] is None or (isinstance(row[name], str) and encodable(row[name]))):
            raise ValueError(f"has a {name} that is no valid text")
    if not isinstance(read.text, str) and (read.text is not None or read.status != "error"):
        raise ValueError(f"has status {read.status} and no text")
    return read


_KEYS = frozenset(AnswerRow._fields)
_TEXTS = ("prompt_id", "model", "digest")
_COUNTS = ("input_tokens", "output_tokens", "recount")
_ALLOWED: dict[str, tuple[str | None, ...]] = {
    "status": get_args(AnswerStatus),
    "finish_reason": (*get_args(FinishReason), None),
    "tokens_source": (*get_args(TokensSource), None),
}
