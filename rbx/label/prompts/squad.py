"""SQuAD (train): a paragraph and a question about it; the first answer is the reference."""

from __future__ import annotations

from rbx.grid.values import Row
from rbx.label.prompts.draft import Draft, Unfit, text_or_blank


def read(row: Row, index: int) -> Draft | Unfit:
    """``squad/row``."""
    question = text_or_blank(row, "question")
    if not question.strip():
        return Unfit("without a question")
    prompt = (
        f"Use the context to answer the question.\n\nContext: {row.text('context')}\n\nQuestion: {question}"
    )
    return Draft(prompt, f"squad/{index}", _first_answer(row))


def _first_answer(row: Row) -> str | None:
    answers = row.require("answers")
    texts = answers.get("text") if isinstance(answers, dict) else None
    if not isinstance(texts, list):
        raise row.fault("answers", "expected an object with a list of texts under text")
    return (
        Row(row.path, row.number, {"answers.text": texts[0]}).optional_text("answers.text") if texts else None
    )
