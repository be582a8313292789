"""The report on routers as one HTML file."""

from __future__ import annotations

from collections.abc import Iterable

from markupsafe import Markup

from rbx.report.figures.drawing import Drawing
from rbx.report.routers.answers import answers
from rbx.report.routers.definitions import DEFINITIONS, interval_words
from rbx.report.routers.robustness_tables import robustness_tables
from rbx.report.routers.study import RouterStudy
from rbx.report.routers.tables import main_tables
from rbx.report.routers.words import stamp, warnings, what_was_judged
from rbx.report.template import render
from rbx.sweep.provenance import versions


def render_page(study: RouterStudy, drawings: Iterable[Drawing]) -> str:
    """The whole page; all text of grid, pool and bundle is escaped."""
    return render(
        "routers.html.j2",
        name=f"Routers of {study.material.view.name}",
        created="",
        kinds=stamp(study),
        lead=what_was_judged(study),
        warnings=list(warnings(study)),
        answers=answers(study),
        figures=[(drawing, Markup(drawing.inline_svg)) for drawing in drawings],
        main_tables=list(main_tables(study)),
        robustness_tables=list(robustness_tables(study)),
        definitions=DEFINITIONS,
        interval_words=interval_words(study.options.resampling),
        provenance=list(provenance(study).items()),
    )


def provenance(study: RouterStudy) -> dict[str, str]:
    """What the report was made from: digests, seed, versions."""
    material = study.material
    bundle, view, pool = material.bundle, material.view, material.pool
    return {
        "grid": f"{view.name} {view.digest}",
        "metric": view.metric,
        "pool": f"{pool.name} {pool.digest}",
        "bundle": bundle.digest,
        "encoder": f"{bundle.meta.encoder_name} {bundle.meta.encoder_digest}",
        **{f"router {name}": bundle.router_digest(name) for name in sorted(bundle.routers)},
        "seed": str(study.options.seed),
        **{f"version {name}": version for name, version in versions().items()},
    }
