"""Write what became of the claims: page, tables, figures and summary."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rbx.durable import write_json, write_text
from rbx.report.claims.drawings import draw_claims
from rbx.report.claims.page import render_page
from rbx.report.claims.study import ClaimsStudy
from rbx.report.claims.summary import claims_csv, summarise
from rbx.report.claims.tables import all_tables
from rbx.report.claims.words import answers, interval_words, lead, warnings
from rbx.report.figures.files import SUFFIXES, write_drawings
from rbx.report.written.stale import clear_stale
from rbx.report.written.table_latex import latex_table
from rbx.report.written.table_markdown import markdown_table, markdown_text


@dataclass(frozen=True)
class ClaimsReport:
    """What was written: the page's path, and the summary as it stands in ``summary.json``."""

    page: Path
    summary: dict[str, Any]


def write_claims(study: ClaimsStudy, out: Path) -> ClaimsReport:
    """Write ``index.html``, ``claims.csv``, ``claims.md``, ``claims.tex``, ``summary.json`` and ``figures/``.

    Raises ``StoreError`` where something can't be written.
    """
    drawings = list(draw_claims(study))
    summary = summarise(study)
    written = write_drawings(drawings, out / "figures")
    write_text(claims_csv(study), out / "claims.csv")
    write_text(_markdown(study), out / "claims.md")
    write_text(_latex(study), out / "claims.tex")
    write_json(summary, out / "summary.json")
    write_text(render_page(study, drawings), out / "index.html")
    clear_stale(out / "figures", written, SUFFIXES)
    return ClaimsReport(out / "index.html", summary)


def _markdown(study: ClaimsStudy) -> str:
    stamp = " · ".join(study.kinds)
    sentences = [lead(study), *([study.file.note] if study.file.note else []), *answers(study)]
    lines = [f"# {markdown_text(study.file.name)}"]
    for sentence in sentences:
        lines += ["", markdown_text(sentence)]
    missing = [f"- {markdown_text(sentence)}" for sentence in warnings(study)]
    lines += ["", "Not there:", "", *missing] if missing else []
    for table in all_tables(study):
        lines += ["", *markdown_table(table, stamp)]
    return "\n".join([*lines, "", markdown_text(interval_words(study.resampling)), ""])


def _latex(study: ClaimsStudy) -> str:
    stamp = " · ".join(study.kinds)
    tables = [line for table in all_tables(study) for line in (*latex_table(table, stamp), "")]
    return "\n".join(tables)
