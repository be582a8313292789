"""Every table of a sweep's page, made once: the page shows them, and files hold them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rbx.report.admission_table import admission_table
from rbx.report.analysis import Analysis, RateResult
from rbx.report.cascade_table import cascade_table
from rbx.report.decision_tables import decisions_table
from rbx.report.duel_tables import baseline_table, duels_table, standing_table, tally_table
from rbx.report.live_tables import live_tables
from rbx.report.number import percent
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
from rbx.report.overview_table import overview_table
from rbx.report.rate_tables import rate_tables
from rbx.report.sweep_tables import frontier_table, references_table, winners_table
from rbx.report.table import Table
from rbx.report.telling_columns import telling
from rbx.report.written.files import Named, file_name


@dataclass(frozen=True)
class RateSection:
    """The tables of one rate, and how its part of the page is called."""

    anchor: str
    title: str
    is_open: bool
    overview: Table
    duels: Table
    decisions: Table
    tables: tuple[Table, ...]
    on_time: Table | None


@dataclass(frozen=True)
class PageTables:
    """``comparisons`` of RouteBalance with the others, ``gains`` of BEAR; both only where there are any."""

    winners: Table
    frontier: Table
    references: Table
    comparisons: tuple[Table, ...]
    gains: Table | None
    on_time: tuple[Table, ...]
    live: tuple[Table, ...]
    sections: tuple[RateSection, ...]

    def named(self) -> Iterator[Named]:
        """Each table that has rows, with a file name of its own; those of a rate begin with it."""
        over_all = [self.winners, self.frontier, self.references, *self.comparisons, *self.on_time]
        over_all += [*self.live, *([] if self.gains is None else [self.gains])]
        named = [(file_name(table.caption), table) for table in over_all]
        for section in self.sections:
            own = [section.overview, *section.tables, section.decisions, section.duels]
            own += [] if section.on_time is None else [section.on_time]
            named += [(f"{section.anchor}-{file_name(table.caption)}", table) for table in own]
        seen: dict[str, int] = {}
        for name, table in named:
            if not table.rows:
                continue
            seen[name] = seen.get(name, 0) + 1
            yield (name if seen[name] == 1 else f"{name}-{seen[name]}"), table


def page_tables(analysis: Analysis) -> PageTables:
    """All tables of the page."""
    return PageTables(
        winners=telling(winners_table(analysis)),
        frontier=telling(frontier_table(analysis)),
        references=telling(references_table(analysis)),
        comparisons=tuple(telling(table) for table in _comparisons(analysis) if table.rows),
        gains=_gains(analysis),
        on_time=tuple(map(telling, _on_time(analysis))),
        live=tuple(map(telling, live_tables(analysis.sweep))),
        sections=tuple(
            _section(index, rate, analysis, is_open=rate is analysis.middle)
            for index, rate in enumerate(analysis.rates)
        ),
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


def _section(index: int, rate: RateResult, analysis: Analysis, *, is_open: bool) -> RateSection:
    tables = (*rate_tables(rate, analysis.baseline_label), *_where_there_are_any(rate))
    study = analysis.on_time
    load = "" if rate.load is None else f", {percent(rate.load)} load"
    return RateSection(
        anchor=f"rate-{index + 1}",
        title=f"λ = {rate.rate_per_s:g} req/s{load}",
        is_open=is_open,
        overview=telling(overview_table(rate)),
        duels=telling(duels_table(rate)),
        decisions=telling(decisions_table(rate)),
        tables=tuple(map(telling, tables)),
        on_time=None if study is None else telling(on_time_table(study, rate.rate_per_s)),
    )


def _where_there_are_any(rate: RateResult) -> Iterator[Table]:
    """Of policies that not every sweep has."""
    for table in (admission_table(rate), cascade_table(rate)):
        if table is not None:
            yield table
