"""A table as Markdown."""

from __future__ import annotations

from collections.abc import Iterator

from rbx.report.table import Table, Value


def markdown_table(table: Table, stamp: str = "") -> Iterator[str]:
    """Lines of a section: heading, note (``stamp`` follows it), rows and footnote."""
    yield f"## {markdown_text(table.caption)}"
    yield ""
    yield markdown_text(" ".join(part for part in (table.note, stamp) if part))
    yield ""
    yield "| " + " | ".join(markdown_text(column.title) for column in table.columns) + " |"
    yield "|" + "|".join("---:" if column.numeric else "---" for column in table.columns) + "|"
    for row in table.rows:
        yield "| " + " | ".join(_cell(value) for value in row) + " |"
    if table.footnote:
        yield ""
        yield markdown_text(table.footnote)


def _cell(value: Value) -> str:
    return markdown_text(f"{value.text}{value.flag} {value.sub}".strip())


def markdown_text(text: str) -> str:
    """Names of a sweep are its author's: nothing in them may end a cell or begin markup."""
    kept = "".join(c if c.isprintable() else " " for c in text)
    for sign in "\\|<>`*_[]":
        kept = kept.replace(sign, f"\\{sign}")
    return kept
