"""Every table of a report as three files."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from rbx.errors import StoreError
from rbx.report.table import Table
from rbx.report.written.stale import clear_stale
from rbx.report.written.table_csv import csv_table
from rbx.report.written.table_latex import latex_table
from rbx.report.written.table_markdown import markdown_table

Named = tuple[str, Table]
SUFFIXES = (".csv", ".md", ".tex")


def write_tables(folder: Path, tables: Iterable[Named], stamp: str) -> None:
    """``NAME.csv``, ``NAME.md`` and ``NAME.tex`` of each; files of tables that are no more are removed.

    ``stamp`` (what served the requests) stands in the last two. Raises ``StoreError``.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        written = {path for name, table in tables for path in _write(folder / name, table, stamp)}
    except OSError as error:
        raise StoreError(f"{folder}: can't be written: {error.strerror or error}") from None
    clear_stale(folder, written, SUFFIXES)


def file_name(caption: str) -> str:
    """A caption as the stem of a file: lower-case letters, digits and hyphens."""
    return re.sub(r"[^a-z0-9]+", "-", caption.lower()).strip("-") or "table"


def _write(stem: Path, table: Table, stamp: str) -> list[Path]:
    texts = (
        csv_table(table),
        "\n".join(markdown_table(table, stamp)) + "\n",
        "\n".join(latex_table(table, stamp)) + "\n",
    )
    paths = [stem.with_name(stem.name + suffix) for suffix in SUFFIXES]
    for path, text in zip(paths, texts, strict=True):
        path.write_text(text, encoding="utf-8", newline="")
    return paths
