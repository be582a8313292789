"""Write a report: read the sweep, analyse it, and put every file under ``report/``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rbx.durable import write_json, write_table, write_text
from rbx.report.analysis import Analysis, analyse
from rbx.report.cells_table import cells_table
from rbx.report.engine import kinds
from rbx.report.figures import draw_all
from rbx.report.figures.files import SUFFIXES, write_drawings
from rbx.report.load import read_sweep
from rbx.report.ontime.csv import on_time_csv
from rbx.report.page import render_page
from rbx.report.page_tables import page_tables
from rbx.report.paired import Resampling
from rbx.report.summary import summarise
from rbx.report.written.files import write_tables
from rbx.report.written.stale import clear_stale


@dataclass(frozen=True)
class Report:
    """What was written: the page's path, the summary as it stands in ``summary.json``, the analysis."""

    page: Path
    summary: dict[str, Any]
    analysis: Analysis


def write_report(
    folder: Path, *, baseline: str | None = None, strict: bool = False, resampling: Resampling | None = None
) -> Report:
    """Report the sweep in ``folder`` into ``folder/report``.

    Raises ``StoreError`` for a directory that holds no reportable cell or can't be written, and
    ``UsageError`` for an unknown baseline.
    """
    sweep = read_sweep(folder, strict=strict)
    analysis = analyse(sweep, baseline=baseline, resampling=resampling or Resampling())
    drawings = list(draw_all(analysis))
    tables = page_tables(analysis)
    page = render_page(analysis, tables, drawings)
    summary = summarise(analysis)
    out = folder / "report"
    figures = out / "figures"
    written = write_drawings(drawings, figures)
    write_text(page, out / "index.html")
    write_table(cells_table(sweep), out / "cells.parquet")
    write_json(summary, out / "summary.json")
    write_tables(out / "tables", tables.named(), " · ".join(kinds(sweep)))
    if analysis.on_time is not None:
        write_text(on_time_csv(analysis.on_time), out / "on_time.csv")
    clear_stale(figures, written, SUFFIXES)
    return Report(out / "index.html", summary, analysis)
