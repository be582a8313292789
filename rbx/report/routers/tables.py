"""The tables of the report on routers: what choices are worth, and how good scores are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from rbx.report.interval import Interval
from rbx.report.number import UNKNOWN, percent, score, signed, significant, span, usd_per_thousand
from rbx.report.routers.allocation import BEST_SINGLE, PER_SOURCE, RANDOM
from rbx.report.routers.calibration import CalibrationRow
from rbx.report.routers.routed_quality import RoutedRow
from rbx.report.routers.study import RouterStudy
from rbx.report.table import Column, Table, Value, Write, change, estimate, number

_GOES_TO = 4


def main_tables(study: RouterStudy) -> Iterator[Table]:
    """Routed quality and cost, by source, where requests go; ranking, calibration and area."""
    yield routed_table(study)
    yield source_table(study)
    yield shares_table(study)
    yield concordance_table(study)
    yield calibration_table(study)
    if study.curves:
        yield area_table(study)


def population_words(study: RouterStudy) -> str:
    """How many prompts the figures are taken over, and how many of those have costs."""
    people = study.material.population
    words = f"n = {people.n:,} of {people.n_test:,} test prompts ({percent(people.coverage)})"
    if people.n_priced < people.n:
        words += f"; costs over the {people.n_priced:,} with a known length from every model"
    return words + "."


def routed_table(study: RouterStudy) -> Table:
    """One row a router in each setting, then the references and each model alone."""
    return Table(
        caption="Routed quality, cost, and how often the choice is a best one",
        note=f"{population_words(study)} Differences are paired by prompt.",
        columns=(
            Column("router", numeric=False),
            Column("quality", "mean label of the chosen model"),
            Column("− best single", f"quality less that of: {BEST_SINGLE}"),
            Column("− random", f"quality less that of: {RANDOM}"),
            Column("− per-source best", f"quality less that of: {PER_SOURCE}"),
            Column("$ / 1,000", "USD per 1,000 requests at the pool's prices and the recorded lengths"),
            Column("$ − best single", "paired difference of cost per 1,000 requests"),
            Column("picks a best", "share of prompts whose choice has the highest label; a tie counts"),
            Column("− random", "share less what a random choice hits"),
            Column("where it matters", "the same, on prompts whose labels differ"),
        ),
        rows=tuple(_routed_values(row) for row in study.rows),
    )


def _routed_values(row: RoutedRow) -> tuple[Value, ...]:
    return (
        _name(row),
        estimate(row.quality, score),
        *(
            against(row.label == reference, row.against[reference], score)
            for reference in (BEST_SINGLE, RANDOM, PER_SOURCE)
        ),
        estimate(row.cost_usd, usd_per_thousand),
        against(row.label == BEST_SINGLE, row.cost_against, usd_per_thousand, lower_is_better=True),
        estimate(row.picks_best, percent_1),
        against(row.label == RANDOM, row.picks_against_random, percent_1),
        estimate(row.picks_informative, percent_1),
    )


def _name(row: RoutedRow) -> Value:
    return Value(row.label, tone="" if row.kind == "router" else "mute")


def against(is_itself: bool, interval: Interval, write: Write, *, lower_is_better: bool = False) -> Value:
    """A difference to a reference; a dash in the reference's own row."""
    if is_itself:
        return Value(UNKNOWN, tone="mute")
    return change(interval, write, lower_is_better=lower_is_better)


def source_table(study: RouterStudy) -> Table:
    """Quality on each source's prompts."""
    people = study.material.population
    counts = {source: int((people.prompt_sources == source).sum()) for source in people.sources}
    return Table(
        caption="Routed quality by source",
        note="Mean label of the chosen model on each source's test prompts; n stands in the heading.",
        columns=(
            Column("router", numeric=False),
            *(Column(f"{source} (n = {counts[source]:,})") for source in people.sources),
        ),
        rows=tuple(
            (_name(row), *(estimate(row.by_source[source], score) for source in people.sources))
            for row in study.rows
        ),
    )


def shares_table(study: RouterStudy) -> Table:
    """Which models the requests go to."""
    rows = []
    for row in study.rows:
        if row.kind == "single":
            continue
        shares = sorted(zip(study.material.population.models, row.shares, strict=True), key=lambda s: -s[1])
        used = [(model, share) for model, share in shares if share > 0]
        more = f", {len(used) - _GOES_TO} more" if len(used) > _GOES_TO else ""
        words = ", ".join(f"{model} {percent(share)}" for model, share in used[:_GOES_TO])
        rows.append((_name(row), number(float(len(used)), lambda n: f"{n:g}"), Value(words + more)))
    return Table(
        caption="Where requests go",
        note=f"{population_words(study)} Shares of all models stand in shares.csv.",
        columns=(
            Column("router", numeric=False),
            Column("models used"),
            Column("goes to", "models of the largest shares", numeric=False),
        ),
        rows=tuple(rows),
    )


def concordance_table(study: RouterStudy) -> Table:
    """AUC of each router's score, by model."""
    models = study.material.population.models
    kind = "concordance index (labels are graded)" if study.material.population.is_graded else "ROC AUC"
    return Table(
        caption="Does a higher score mean a better answer?",
        note=(
            f"{population_words(study)} {kind[0].upper()}{kind[1:]} of a model's score over prompts: chance "
            "that the better answered of two prompts has the higher score; 0.5 tells nothing. Routers that "
            "compare models (avengers-pro, matrix-factorisation) do not claim this of a single model's "
            "score. Mean: over the models whose labels differ. A tie goes to the earlier model of the pool."
        ),
        columns=(
            Column("model", numeric=False),
            *(Column(row.router) for row in study.concordance),
        ),
        rows=(
            (
                Value("mean over models"),
                *(estimate(row.macro, score) for row in study.concordance),
            ),
            (
                Value("prompts with a tie for the highest score"),
                *(estimate(row.tied, percent_1) for row in study.concordance),
            ),
            *(
                (
                    Value(model),
                    *(
                        Value(UNKNOWN, hint="all labels are the same", tone="mute")
                        if (found := row.by_model[k]) is None
                        else estimate(found, score)
                        for row in study.concordance
                    ),
                )
                for k, model in enumerate(models)
            ),
        ),
    )


def calibration_table(study: RouterStudy) -> Table:
    """Expected calibration error where scores are expected labels."""
    blank = Value("not a probability", tone="mute", hint="its scores rank models and predict no label")
    return Table(
        caption="Calibration",
        note=(
            f"{population_words(study)} Each model's predicted quality on each prompt beside its label, in "
            "ten bins of equal mass (equal predictions share one). Resampling adds noise to every bin, so "
            "that the interval of the error lies high."
        ),
        columns=(
            Column("router", numeric=False),
            Column("error", "Σ over bins: share × |mean prediction − mean label|"),
            Column("bias", "mean prediction − label"),
            Column("outside [0, 1]", "share of predictions that no label can equal"),
            Column("predictions"),
            Column("bins"),
        ),
        rows=(
            *(_calibration_values(row) for row in study.calibration),
            *((Value(label), blank, *(Value("") for _ in range(4))) for label in study.unjudged),
        ),
    )


def _calibration_values(row: CalibrationRow) -> tuple[Value, ...]:
    bias = estimate(row.bias, score)
    return (
        Value(row.router),
        estimate(row.error, score),
        replace(bias, text=signed(bias.text), sub=span(row.bias, lambda bound: signed(score(bound)))),
        number(row.outside, percent_1),
        number(float(row.n_values), lambda n: f"{n:,.0f}"),
        number(float(len(row.bins)), lambda n: f"{n:g}"),
    )


def area_table(study: RouterStudy) -> Table:
    """AIQ of every curve."""
    return Table(
        caption="Quality over the whole range of costs (AIQ)",
        note=(
            f"{population_words(study)} Mean height of the non-decreasing convex hull of a router's settings "
            "between the mean costs of the cheapest and the dearest model (RouterBench, arXiv 2403.12031); "
            "the cheapest model's own point belongs to every hull. Hulls are taken over test prompts, so "
            "they are optimistic, the more so the more settings. λ is in quality per "
            f"{significant(study.cost_unit_usd)} USD, the dearest model's mean training answer."
        ),
        columns=(
            Column("router", numeric=False),
            Column("swept", numeric=False),
            Column("settings"),
            Column("AIQ"),
            Column("− single models", "AIQ less that of the single models mixed at random, paired"),
            Column("best quality", "highest corner of the hull"),
            Column("at $ / 1,000", "cost of that corner"),
        ),
        rows=tuple(
            (
                Value(curve.label, tone="" if curve is not study.curves[-1] else "mute"),
                Value(curve.trade_off),
                number(float(len(curve.settings)), lambda n: f"{n:g}"),
                estimate(curve.area, score),
                against(curve is study.curves[-1], curve.against_singles, score),
                number(curve.corners[-1][1], score),
                number(curve.corners[-1][0], usd_per_thousand),
            )
            for curve in study.curves
        ),
    )


def brief(study: RouterStudy) -> Table:
    """Routers and references without single models, in columns that fit a terminal."""
    table = routed_table(study)
    kept = (0, 1, 2, 5, 7, 9)
    rows = tuple(
        tuple(values[index] for index in kept)
        for values, row in zip(table.rows, study.rows, strict=True)
        if row.kind != "single"
    )
    return replace(table, columns=tuple(table.columns[index] for index in kept), rows=rows)


def percent_1(share: float) -> str:
    """A share with one decimal."""
    return percent(share, 1)
