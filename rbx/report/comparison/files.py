"""Write a comparison: page, tables, a flat CSV and the summary."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rbx.durable import write_json, write_text
from rbx.errors import StoreError
from rbx.report.bootstrap import LEVEL
from rbx.report.comparison.study import Comparison, Gap
from rbx.report.comparison.tables import (
    coverage_line,
    named_tables,
    overview_table,
    rate_table,
    settings_table,
)
from rbx.report.engine import kinds
from rbx.report.load import Sweep
from rbx.report.looks import looks_of
from rbx.report.plain_text import printable
from rbx.report.summary import nulls
from rbx.report.template import render
from rbx.report.written.files import write_tables
from rbx.report.written.records_csv import records_csv


@dataclass(frozen=True)
class ComparisonReport:
    """What was written: the page's path, and the summary as it stands in ``summary.json``."""

    page: Path
    summary: dict[str, Any]


def write_comparison(found: Comparison, out: Path) -> ComparisonReport:
    """Write ``index.html``, ``differences.csv``, ``summary.json`` and ``tables/``; raises ``StoreError``."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"{out}: can't be written: {error.strerror or error}") from None
    summary = summarise(found)
    write_tables(out / "tables", named_tables(found), " · ".join(found.kinds))
    write_text(differences_csv(found), out / "differences.csv")
    write_json(summary, out / "summary.json")
    write_text(_page(found), out / "index.html")
    return ComparisonReport(out / "index.html", summary)


def title(found: Comparison) -> str:
    """Both sweeps by name."""
    return f"{_name(found.a)} (A) and {_name(found.b)} (B)"


def _name(sweep: Sweep) -> str:
    return str(sweep.manifest.get("name", sweep.folder.name))


def warnings(found: Comparison) -> Iterator[str]:
    """What served either, where that differs; cells left out; policies that are the same by name alone."""
    a, b = (" · ".join(kinds(sweep)) for sweep in (found.a, found.b))
    if a != b:
        yield f"The two were not served alike. A: {a}. B: {b}."
    for letter, sweep in (("A", found.a), ("B", found.b)):
        if sweep.invalid:
            yield f"{len(sweep.invalid)} cells of {letter} are invalid and left out: see its own report."
        if sweep.missing:
            yield f"{len(sweep.missing)} cells of {letter} were not run."
    if renamed := [couple.a.point.label for couple in found.matched.couples if couple.other_policy]:
        yield f"Settings differ under the same label: {', '.join(dict.fromkeys(renamed))}."


def _page(found: Comparison) -> str:
    return render(
        "comparison.html.j2",
        name=title(found),
        created="",
        kinds=found.kinds,
        looks=looks_of(couple.a.point.family for couple in found.matched.couples),
        lead=coverage_line(found),
        warnings=list(warnings(found)),
        overview=overview_table(found),
        settings=settings_table(found),
        tables=[rate_table(found, rate_per_s) for rate_per_s in found.rates_per_s],
        alone=[("A", found.matched.only_a), ("B", found.matched.only_b)],
        folders=[("A", str(found.a.folder)), ("B", str(found.b.folder))],
    )


def summarise(found: Comparison) -> dict[str, Any]:
    """A JSON-ready mapping; NaN is null."""
    summary = {
        "a": {"name": _name(found.a), "folder": str(found.a.folder)},
        "b": {"name": _name(found.b), "folder": str(found.b.folder)},
        "kinds": list(found.kinds),
        "intervals": {
            "kind": "paired percentile bootstrap over prompts",
            "level": LEVEL,
            "n_resamples": found.resampling.n_resamples,
            "seed": found.resampling.seed,
        },
        "settings": [each._asdict() for each in found.settings],
        "only_a": list(found.matched.only_a),
        "only_b": list(found.matched.only_b),
        "warnings": list(warnings(found)),
        "differences": [_row(gap) for gap in found.gaps],
    }
    cleaned: dict[str, Any] = nulls(summary)
    return cleaned


def differences_csv(found: Comparison) -> str:
    """One row a policy, rate and metric; what is not known is empty."""
    return records_csv([_row(gap) for gap in found.gaps])


def _row(gap: Gap) -> dict[str, Any]:
    a, b = gap.couple.a.point, gap.couple.b.point
    found = asdict(gap.gap)
    return {
        "policy": printable(a.label),
        "rate_per_s": a.rate_per_s,
        "seeds": " ".join(str(cell.spec.seed) for cell in a.cells),
        "metric": gap.metric.name,
        "a": gap.a,
        "b": gap.b,
        "difference": found["value"],
        "low": found["low"],
        "high": found["high"],
        "interval": found["status"],
        "reason": found["reason"],
        "a_keeps_up": a.keeps_up,
        "b_keeps_up": b.keeps_up,
    }
