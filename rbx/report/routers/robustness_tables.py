"""The tables of what routers withstand: other wording, unseen sources, wrong labels, other k and prices."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from rbx.report.number import percent, score, usd_per_thousand
from rbx.report.routers.allocation import BEST_SINGLE
from rbx.report.routers.label_noise import RATES
from rbx.report.routers.study import RouterStudy
from rbx.report.routers.tables import against, percent_1, population_words
from rbx.report.table import Column, Table, Value, change, estimate


def robustness_tables(study: RouterStudy) -> Iterator[Table]:
    """Those that have anything to show."""
    if study.flips:
        yield flip_table(study)
        yield flip_quality_table(study)
    if study.held_out:
        yield held_out_table(study)
    if study.label_noise:
        yield label_noise_table(study)
    yield neighbour_table(study)
    if study.prices:
        yield price_table(study)


def flip_table(study: RouterStudy) -> Table:
    """Share of prompts whose model changes, by noise and router."""
    cells = {(row.noise, row.router): estimate(row.flipped, percent_1) for row in study.flips}
    return Table(
        caption="Flip rate: share of prompts whose model changes with the wording",
        note=f"{population_words(study)} Texts are changed, encoded and routed again, seed "
        f"{study.options.seed}.",
        columns=_by_router(study),
        rows=_noise_rows(study, cells),
    )


def flip_quality_table(study: RouterStudy) -> Table:
    """What the changed choices do to quality."""
    cells = {
        (row.noise, row.router): change(row.quality_change, score, lower_is_better=False)
        for row in study.flips
    }
    return Table(
        caption="What those flips do to quality",
        note=(
            f"{population_words(study)} Mean label of the choice for the changed text less that for the "
            "clean one, both by the clean prompt's labels: the models' answers stay, the choice alone moves."
        ),
        columns=_by_router(study),
        rows=_noise_rows(study, cells),
    )


def _by_router(study: RouterStudy) -> tuple[Column, ...]:
    return (Column("noise", numeric=False), *(Column(name) for name in _flip_routers(study)))


def _flip_routers(study: RouterStudy) -> list[str]:
    return list(dict.fromkeys(row.router for row in study.flips))


def _noise_rows(study: RouterStudy, cells: dict[tuple[str, str], Value]) -> tuple[tuple[Value, ...], ...]:
    kinds = {row.noise: row.kind for row in study.flips}
    return tuple(
        (Value(noise, sub=kind), *(cells[noise, router] for router in _flip_routers(study)))
        for noise, kind in kinds.items()
    )


def held_out_table(study: RouterStudy) -> Table:
    """Quality on each source by routers that have seen it and by routers that have not."""
    return Table(
        caption="Leave one source out",
        note=(
            "Routers trained again without a source's prompts, and on all of them, judged on that source's "
            "test prompts; paired. Last column: without the source, less the model that is best on the "
            f"others ({BEST_SINGLE})."
        ),
        columns=(
            Column("source", numeric=False),
            Column("router", numeric=False),
            Column("n"),
            Column("trained on all"),
            Column("without it"),
            Column("difference"),
            Column("− best single"),
        ),
        rows=tuple(
            (
                Value(row.source),
                Value(row.router, tone="mute" if row.router == BEST_SINGLE else ""),
                Value(f"{row.n:,}", sort=float(row.n)),
                estimate(row.full, score),
                estimate(row.without, score),
                change(row.difference, score, lower_is_better=False),
                against(row.router == BEST_SINGLE, row.against_single, score),
            )
            for row in study.held_out
        ),
    )


def label_noise_table(study: RouterStudy) -> Table:
    """Quality by router and share of wrong training labels."""
    cells = {(row.router, row.rate): row for row in study.label_noise}
    routers = list(dict.fromkeys(row.router for row in study.label_noise))
    how = "permuted among prompts" if study.material.population.is_graded else "turned around"

    def value(router: str, rate: float) -> Value:
        row = cells[router, rate]
        shown = estimate(row.quality, score)
        if rate == 0.0:
            return shown
        moved = change(row.difference, score, lower_is_better=False)
        words = f"{moved.text} {moved.sub}; {percent(row.changed.value)} of choices changed"
        return replace(shown, sub=words, tone=moved.tone)

    return Table(
        caption="Wrong training labels",
        note=(
            f"{population_words(study)} Routers trained again on labels of which a share is {how} (seed "
            f"{study.options.seed}), judged on true labels; differences are to true training labels, paired."
        ),
        columns=(Column("router", numeric=False), *(Column(f"{percent(rate)} wrong") for rate in RATES)),
        rows=tuple((Value(router), *(value(router, rate) for rate in RATES)) for router in routers),
    )


def neighbour_table(study: RouterStudy) -> Table:
    """The neighbours' head by k."""
    return Table(
        caption="Neighbours that the knn router asks",
        note=f"{population_words(study)} Differences are to the bundle's own k, paired by prompt.",
        columns=(
            Column("k"),
            Column("quality"),
            Column("− own k"),
            Column("picks a best"),
            Column("choices changed"),
        ),
        rows=tuple(
            (
                Value(f"{row.k}", sub="the bundle's" if row.is_own else "", sort=float(row.k)),
                estimate(row.quality, score),
                against(row.is_own, row.difference, score),
                estimate(row.picks_best, percent_1),
                estimate(row.changed, percent_1),
            )
            for row in study.neighbours
        ),
    )


def price_table(study: RouterStudy) -> Table:
    """Routers whose choices move with prices."""
    blind = ", ".join(study.price_blind)
    others = f" At any of these prices the same choices: {blind}." if blind else ""
    return Table(
        caption="Other prices, nothing trained again",
        note=(
            f"{population_words(study)} Quality and choices beside those at the pool's own prices; saved: "
            f"what those choices would cost at the new prices, less what the new ones cost.{others}"
        ),
        columns=(
            Column("prices", numeric=False),
            Column("router", numeric=False),
            Column("choices changed"),
            Column("quality change"),
            Column("$ / 1,000"),
            Column("saved, $ / 1,000"),
        ),
        rows=tuple(
            (
                Value(row.prices),
                Value(row.router),
                estimate(row.changed, percent_1),
                change(row.quality_change, score, lower_is_better=False),
                estimate(row.cost_usd, usd_per_thousand),
                change(row.saved_usd, usd_per_thousand, lower_is_better=False),
            )
            for row in study.prices
        ),
    )
