"""Write the report on routers: judge them, and put page, figures, tables and summary into a folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rbx.durable import write_json, write_text
from rbx.errors import StoreError
from rbx.heads.progress import Progress, silent
from rbx.report.figures.files import SUFFIXES, write_drawings
from rbx.report.routers.csv_tables import csv_tables
from rbx.report.routers.drawings import draw_routers
from rbx.report.routers.page import render_page
from rbx.report.routers.population import Material
from rbx.report.routers.study import RouterStudy, StudyOptions, study_routers
from rbx.report.routers.summary import summarise
from rbx.report.written.stale import clear_stale


@dataclass(frozen=True)
class RouterReport:
    """What was written: the page's path, the summary as it stands in ``summary.json``, the study."""

    page: Path
    summary: dict[str, Any]
    study: RouterStudy


def write_router_report(
    material: Material, out: Path, options: StudyOptions, progress: Progress = silent
) -> RouterReport:
    """Write ``index.html``, ``summary.json``, ``tables/``, ``figures/`` and ``retrained/`` below ``out``.

    Raises ``StoreError`` where something can't be written.
    """
    folders = {name: out / name for name in ("tables", "figures")}
    try:
        for folder in folders.values():
            folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"{out}: can't be written: {error.strerror or error}") from None
    study = study_routers(material, options, out / "retrained", progress)
    drawings = list(draw_routers(study))
    summary = summarise(study)
    tables = {folders["tables"] / name: text for name, text in csv_tables(study).items()}
    for path, text in tables.items():
        write_text(text, path)
    written = write_drawings(drawings, folders["figures"])
    write_json(summary, out / "summary.json")
    write_text(render_page(study, drawings), out / "index.html")
    clear_stale(folders["tables"], set(tables), (".csv",))
    clear_stale(folders["figures"], written, SUFFIXES)
    return RouterReport(out / "index.html", summary, study)
