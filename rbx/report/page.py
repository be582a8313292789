"""The report as one HTML file: styles, scripts and figures inside, nothing fetched from anywhere."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from rbx.config.base import flatten
from rbx.report.admission_table import admission_table
from rbx.report.analysis import Analysis, RateResult
from rbx.report.bootstrap import LEVEL
from rbx.report.decision_tables import decisions_table
from rbx.report.definitions import DEFINITIONS, interval_words
from rbx.report.dominance import QUALITY_MARGIN
from rbx.report.duel_tables import baseline_table, duels_table, standing_table, tally_table
from rbx.report.engine import kinds
from rbx.report.figures.drawing import Drawing
from rbx.report.headline import headline
from rbx.report.live_tables import live_tables
from rbx.report.number import percent
from rbx.report.ontime.definitions import ON_TIME_DEFINITIONS, on_time_words
from rbx.report.ontime.estimator_tables import estimator_tables
from rbx.report.ontime.published import are_comparable
from rbx.report.ontime.rate_table import on_time_table
from rbx.report.ontime.tables import (
    averages_table,
    curve_tables,
    lost_table,
    published_cells_table,
    rivals_table,
)
from rbx.report.rate_tables import rate_tables
from rbx.report.sweep_tables import frontier_table, references_table, winners_table
from rbx.report.table import Table
from rbx.report.template import render

_ON_TIME_FIGURES = ("on-time", "predicted-ttft")


@dataclass(frozen=True)
class _RateSection:
    anchor: str
    title: str
    is_open: bool
    duels: Table
    decisions: Table
    tables: tuple[Table, ...]
    on_time: Table | None


def render_page(analysis: Analysis, drawings: Iterable[Drawing]) -> str:
    """The whole page; all text of the sweep is escaped."""
    manifest = analysis.sweep.manifest
    shown = list(drawings)
    middle = f"quality-latency-{analysis.rates.index(analysis.middle) + 1}"
    return render(
        "page.html.j2",
        name=str(manifest.get("name", analysis.sweep.folder.name)),
        created=str(manifest.get("created", "")),
        kinds=kinds(analysis.sweep),
        headline=headline(analysis),
        comparisons=[table for table in _comparisons(analysis) if table.rows],
        gains=_gains(analysis),
        on_time=_on_time(analysis),
        on_time_words=on_time_words(analysis.on_time, analysis.resampling, LEVEL),
        frontier=frontier_table(analysis),
        margin=f"{QUALITY_MARGIN:g}",
        winners=winners_table(analysis),
        references=references_table(analysis),
        live=live_tables(analysis.sweep),
        on_time_figures=[(d, Markup(d.inline_svg)) for d in shown if d.name in _ON_TIME_FIGURES],
        figures=[
            (d, Markup(d.inline_svg))
            for d in shown
            if d.name not in _ON_TIME_FIGURES and not _is_other_rate(d, middle)
        ],
        more_figures=[(d, Markup(d.inline_svg)) for d in shown if _is_other_rate(d, middle)],
        sections=[
            _section(index, rate, analysis, is_open=rate is analysis.middle)
            for index, rate in enumerate(analysis.rates)
        ],
        invalid=analysis.sweep.invalid,
        missing=analysis.sweep.missing,
        definitions=DEFINITIONS + (ON_TIME_DEFINITIONS if analysis.on_time else ()),
        interval_words=interval_words(analysis.resampling, LEVEL),
        settings=_settings(manifest),
        provenance=_provenance(manifest),
    )


def _comparisons(analysis: Analysis) -> tuple[Table, ...]:
    """Tables of RouteBalance against the others; none without both."""
    if not any(rate.duels for rate in analysis.rates):
        return ()
    return baseline_table(analysis), tally_table(analysis), standing_table(analysis)


def _gains(analysis: Analysis) -> Table | None:
    """What BEAR gains on average, for the top of the page."""
    study = analysis.on_time
    if study is None or study.comparison is None:
        return None
    return averages_table(study, study.comparison, published=are_comparable(analysis.sweep.manifest))


def _on_time(analysis: Analysis) -> tuple[Table, ...]:
    """The other on-time tables over all rates; none without TTFT targets."""
    study, published = analysis.on_time, are_comparable(analysis.sweep.manifest)
    if study is None:
        return ()
    tables = list(curve_tables(study))
    if study.comparison is not None:
        tables += [rivals_table(study.comparison), lost_table(study.comparison)]
    tables += estimator_tables(study, published=published)
    return (*tables, published_cells_table()) if published else tuple(tables)


def _is_other_rate(drawing: Drawing, middle: str) -> bool:
    return drawing.name.startswith("quality-latency-") and drawing.name != middle


def _section(index: int, rate: RateResult, analysis: Analysis, *, is_open: bool) -> _RateSection:
    load = "" if rate.load is None else f", {percent(rate.load)} load"
    return _RateSection(
        anchor=f"rate-{index + 1}",
        title=f"λ = {rate.rate_per_s:g} req/s{load}",
        is_open=is_open,
        duels=duels_table(rate),
        decisions=decisions_table(rate),
        tables=(*rate_tables(rate, analysis.baseline_label), *_admissions(rate)),
        on_time=None if analysis.on_time is None else on_time_table(analysis.on_time, rate.rate_per_s),
    )


def _admissions(rate: RateResult) -> Iterator[Table]:
    table = admission_table(rate)
    if table is not None:
        yield table


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
