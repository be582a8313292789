"""The report as one HTML file: styles, scripts and figures inside, nothing fetched from anywhere."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from markupsafe import Markup

from rbx.config.base import flatten
from rbx.report.analysis import Analysis
from rbx.report.bootstrap import LEVEL
from rbx.report.definitions import DEFINITIONS, interval_words
from rbx.report.dominance import QUALITY_MARGIN
from rbx.report.engine import kinds
from rbx.report.figures.drawing import Drawing
from rbx.report.headline import headline
from rbx.report.ontime.definitions import ON_TIME_DEFINITIONS, on_time_words
from rbx.report.page_tables import PageTables
from rbx.report.template import render

_ON_TIME_FIGURES = ("on-time", "predicted-ttft")


def render_page(analysis: Analysis, tables: PageTables, drawings: Iterable[Drawing]) -> str:
    """The whole page; all text of the sweep is escaped."""
    manifest = analysis.sweep.manifest
    shown = list(drawings)
    middle = f"quality-latency-{analysis.rates.index(analysis.middle) + 1}"
    return render(
        "page.html.j2",
        name=str(manifest.get("name", analysis.sweep.folder.name)),
        created=str(manifest.get("created", "")),
        kinds=kinds(analysis.sweep),
        looks=analysis.looks,
        headline=headline(analysis),
        comparisons=tables.comparisons,
        gains=tables.gains,
        on_time=tables.on_time,
        on_time_words=on_time_words(analysis.on_time, analysis.resampling, LEVEL),
        frontier=tables.frontier,
        margin=f"{QUALITY_MARGIN:g}",
        winners=tables.winners,
        references=tables.references,
        live=tables.live,
        on_time_figures=[(d, Markup(d.inline_svg)) for d in shown if d.name in _ON_TIME_FIGURES],
        figures=[
            (d, Markup(d.inline_svg))
            for d in shown
            if d.name not in _ON_TIME_FIGURES and not _is_other_rate(d, middle)
        ],
        more_figures=[(d, Markup(d.inline_svg)) for d in shown if _is_other_rate(d, middle)],
        sections=tables.sections,
        invalid=analysis.sweep.invalid,
        missing=analysis.sweep.missing,
        definitions=DEFINITIONS + (ON_TIME_DEFINITIONS if analysis.on_time else ()),
        interval_words=interval_words(analysis.resampling, LEVEL),
        settings=_settings(manifest),
        provenance=_provenance(manifest),
    )


def _is_other_rate(drawing: Drawing, middle: str) -> bool:
    return drawing.name.startswith("quality-latency-") and drawing.name != middle


def _settings(manifest: dict[str, Any]) -> list[tuple[str, str, str]]:
    """(key, value, source) of the effective configuration."""
    sources = manifest.get("sources") or {}
    flat = flatten(manifest.get("config") or {})
    return [(key, str(value), str(sources.get(key, ""))) for key, value in flat.items() if key]


def _provenance(manifest: dict[str, Any]) -> list[tuple[str, str]]:
    chosen = ("grid", "bundle", "capacity", "versions", "revision", "host")
    flat = flatten({key: manifest[key] for key in chosen if manifest.get(key)})
    pool = manifest.get("pool") or {}
    head = [("pool.name", str(pool.get("name", ""))), ("pool.digest", str(pool.get("digest", "")))]
    return head + [(key, str(value)) for key, value in flat.items() if key]
