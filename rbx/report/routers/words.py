"""What the report on routers is about, and what must be known before its figures are read."""

from __future__ import annotations

from collections.abc import Iterator

from rbx.report.engine import SYNTHETIC_GRID
from rbx.report.routers.contender import CASCADE
from rbx.report.routers.study import PARTS, RouterStudy


def stamp(study: RouterStudy) -> tuple[str, ...]:
    """What stands on every table and figure where prompts and labels are made up."""
    return (SYNTHETIC_GRID,) if study.synthetic else ()


def what_was_judged(study: RouterStudy) -> str:
    """Grid, pool, encoder, routers and prompts in two sentences."""
    material, people = study.material, study.material.population
    meta = material.bundle.meta
    names = len({row.label.split(" ")[0] for row in study.routers})
    labels = " Prompts and labels are synthetic: read the shape, not the level." if study.synthetic else ""
    return (
        f"{names} routers in {len(study.routers)} settings choose one of {len(people.models)} models of pool "
        f"{material.pool.name} for each of {people.n:,} test prompts of grid {material.view.name} (metric "
        f"{material.view.metric}, {len(material.task.texts):,} training prompts, encoder "
        f"{meta.encoder_name}). Nothing queues: this is about the choice alone.{labels}"
    )


def warnings(study: RouterStudy) -> Iterator[str]:
    """What limits the figures."""
    people = study.material.population
    if people.n < people.n_test:
        yield (
            f"{people.n:,} of {people.n_test:,} test prompts have a label for every model; the others take "
            "no part, so the figures hold for prompts that every model was scored on."
        )
    if people.n_priced < people.n:
        yield f"Costs are known for {people.n_priced:,} of {people.n:,} prompts only."
    if CASCADE in study.material.bundle.routers:
        if people.answers is None or not any(row.label.startswith(CASCADE) for row in study.routers):
            yield "The cascade is not judged: this grid holds no texts of answers."
        else:
            yield (
                "The cascade reads recorded answers, so other wordings, unseen sources, wrong labels and "
                "prices are not tried on it."
            )
    yield from study.refused
    if skipped := [part for part in PARTS if part in study.options.skip]:
        yield f"Left out, as asked: {', '.join(skipped)}."
