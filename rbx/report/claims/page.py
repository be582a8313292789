"""The claims page as one HTML file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from markupsafe import Markup

from rbx.report.claims.study import ClaimsStudy
from rbx.report.claims.tables import artefact_tables, tally_table
from rbx.report.claims.tally import tallies
from rbx.report.claims.words import answers, interval_words, lead, rules, warnings
from rbx.report.figures.drawing import Drawing
from rbx.report.template import render


def render_page(study: ClaimsStudy, drawings: Iterable[Drawing]) -> str:
    """The whole page; all text of claims file and sweeps is escaped."""
    return render(
        "claims.html.j2",
        name=study.file.name,
        created="",
        kinds=study.kinds,
        lead=lead(study),
        note=study.file.note,
        warnings=list(warnings(study)),
        answers=list(answers(study)),
        tally=tally_table(tallies(study.judged)),
        figures=[(drawing, Markup(drawing.inline_svg)) for drawing in drawings],
        tables=list(artefact_tables(study)),
        rules=rules(),
        interval_words=interval_words(study.resampling),
        provenance=list(_provenance(study)),
    )


def _provenance(study: ClaimsStudy) -> Iterator[tuple[str, str]]:
    """Each sweep by its short name, with what it was made from."""
    for name, folder in study.file.sweeps.items():
        sweep = study.sweeps.get(name)
        if sweep is None:
            yield name, f"{folder}: could not be read"
            continue
        manifest = sweep.manifest
        grid, pool = manifest["grid"], manifest["pool"]
        yield (
            name,
            f"{folder}: {len(sweep.cells)} cells, grid {grid['name']} {str(grid.get('digest'))[:12]} "
            f"({grid['metric']}), pool {pool['name']} {pool['digest'][:12]}, rbx "
            f"{(manifest.get('versions') or {}).get('rbx', 'unknown')}",
        )
