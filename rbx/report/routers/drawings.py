"""Figures of the report on routers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rbx.report.bootstrap import LEVEL
from rbx.report.figures.drawing import Drawing, finish
from rbx.report.figures.labels import Line, place_labels, widest_in
from rbx.report.figures.legend import legend_above
from rbx.report.figures.style import (
    FAINT,
    INK,
    PAPER,
    WIDTH_IN,
    elided,
    log_where_wide,
    styled,
    write_foot,
)
from rbx.report.interval import Interval
from rbx.report.looks import Look, looks_of
from rbx.report.number import score
from rbx.report.plain_text import printable
from rbx.report.routers.allocation import BEST_SINGLE, ORACLE, RANDOM
from rbx.report.routers.calibration import CalibrationRow
from rbx.report.routers.curves import Curve
from rbx.report.routers.study import RouterStudy
from rbx.report.routers.tables import population_words
from rbx.report.routers.words import stamp

_BARS = f"Bars: {100 * LEVEL:.0f} % bootstrap intervals over prompts."
_NAMED = 6
_MOST_COLUMNS = 4
_MOST_CHARACTERS = 44


def draw_routers(study: RouterStudy) -> Iterator[Drawing]:
    """Every figure that has something to show, in the order of the page."""
    with styled():
        yield _gains(study)
        if any(np.isfinite(curve.area.value) for curve in study.curves):
            yield _plane(study)
        if study.calibration:
            yield _reliability(study)
        if study.flips:
            yield _flips(study)


def _gains(study: RouterStudy) -> Drawing:
    rows = sorted(
        (row for row in study.rows if row.kind != "single" and row.label not in (ORACLE, BEST_SINGLE)),
        key=lambda row: row.against[BEST_SINGLE].value,
    )
    height = 1.35 + 0.24 * len(rows)
    figure = Figure(figsize=(WIDTH_IN, height))
    names = [elided(printable(row.label), _MOST_CHARACTERS) for row in rows]
    left = (widest_in(figure, names, 9) + 0.15) / WIDTH_IN
    axes = figure.add_axes((left, 0.95 / height, 0.97 - left, 1.0 - 1.25 / height))
    looks = _looks(study)
    for at, row in enumerate(rows):
        hue = looks[_family(row.label)].colour if row.kind == "router" else FAINT
        _bar(axes, row.against[BEST_SINGLE], float(at), hue)
    axes.axvline(0.0, color=INK, lw=0.8)
    axes.set_yticks(range(len(rows)), names)
    axes.set_ylim(-0.7, len(rows) - 0.3)
    axes.grid(axis="y", visible=False)
    axes.set_xlabel(f"quality less that of the {BEST_SINGLE} (right is better)")
    _foot(figure, study, f"{_BARS} Paired by prompt.")
    words = "; ".join(f"{row.label} {score(row.against[BEST_SINGLE].value)}" for row in reversed(rows))
    return finish(
        figure,
        name="quality-gain",
        title="Routed quality beside the best single model",
        alt=f"Difference in quality to the best single model, best first: {words}.",
    )


def _bar(axes: Axes, interval: Interval, at: float, hue: str) -> None:
    if np.isfinite([interval.low, interval.high]).all():
        axes.plot([interval.low, interval.high], [at, at], color=hue, lw=1.6, solid_capstyle="butt")
    axes.plot(interval.value, at, "o", color=hue, ms=5.5, markeredgecolor=PAPER, markeredgewidth=0.7)


def _plane(study: RouterStudy) -> Drawing:
    figure = Figure(figsize=(WIDTH_IN, 4.9))
    axes = figure.add_axes((0.085, 0.165, 0.885, 0.72))
    references = [row for row in study.rows if row.label in (ORACLE, RANDOM)]
    known = [cost.value for curve in study.curves for cost in curve.cost_usd]
    log_where_wide(axes, "x", [1000 * cost for cost in known])
    looks = _looks(study)
    for curve in study.curves[:-1]:
        _curve(axes, curve, looks[_family(curve.label)])
    singles = study.curves[-1]
    _hull_line(axes, singles, FAINT, "--", "single models, mixed at random")
    x = [1000 * cost.value for cost in singles.cost_usd]
    y = [quality.value for quality in singles.quality]
    axes.plot(x, y, "x", color=INK, ms=5, mew=1.1, ls="", label="single models", zorder=4)
    for row, mark in zip(references, "*d", strict=True):
        axes.plot(
            1000 * row.cost_usd.value,
            row.quality.value,
            mark,
            color=INK,
            ms=8,
            ls="",
            label=row.label,
            zorder=4,
        )
    axes.set_xlabel("cost, USD per 1,000 requests (left is better)")
    axes.set_ylabel("mean quality (up is better)")
    legend_above(figure, axes.get_legend_handles_labels()[0], fontsize=7.5)
    best = sorted(range(len(x)), key=lambda k: -y[k])[:_NAMED]
    names = [(x[k], y[k], printable(singles.settings[k])) for k in best]
    axes.autoscale_view()  # names are placed by the final limits
    place_labels(figure, axes, names, list(zip(x, y, strict=True)), _pieces(study.curves), [])
    _foot(figure, study, "Small marks: settings of a router; lines: their non-decreasing convex hulls.")
    words = "; ".join(f"{curve.label} AIQ {score(curve.area.value)}" for curve in study.curves)
    return finish(
        figure,
        name="quality-cost-curves",
        title="Quality over cost as each router's trade-off is turned",
        alt=f"Curves of quality over cost, with single models, oracle and random choice: {words}.",
    )


def _pieces(curves: Sequence[Curve]) -> list[Line]:
    """The hulls as pieces of line."""
    pieces: list[Line] = []
    for curve in curves:
        corners = [(1000 * cost, quality) for cost, quality in curve.corners]
        pieces += list(pairwise(corners))
    return pieces


def _curve(axes: Axes, curve: Curve, look: Look) -> None:
    axes.plot(
        [1000 * cost.value for cost in curve.cost_usd],
        [quality.value for quality in curve.quality],
        look.marker,
        color=look.colour,
        ms=3,
        alpha=0.45,
        mew=0,
    )
    _hull_line(axes, curve, look.colour, look.dash, printable(curve.label), look.marker)


def _hull_line(axes: Axes, curve: Curve, hue: str, style: str, label: str, mark: str = "") -> None:
    """The hull with its corners; a mixture's cost is a mean, so that edges bend where the axis is a log's."""
    x, y = (np.array(each) for each in zip(*curve.corners, strict=True))
    fine = np.union1d(x, np.geomspace(x[0], x[-1], 300) if x[0] > 0 else np.linspace(x[0], x[-1], 300))
    drawn = np.interp(fine, x, y)
    axes.plot(
        1000 * fine,
        drawn,
        color=hue,
        ls=style,
        marker=mark,
        markevery=np.searchsorted(fine, x).tolist(),
        ms=4.5,
        lw=1.5,
        label=label,
        mec=PAPER,
        mew=0.5,
    )


def _reliability(study: RouterStudy) -> Drawing:
    rows = study.calibration
    looks = _looks(study)
    columns = min(_MOST_COLUMNS, len(rows))
    lines = -(-len(rows) // columns)
    height = 1.05 + 2.3 * lines
    figure = Figure(figsize=(WIDTH_IN, height))
    panels = figure.subplots(lines, columns, sharex=True, sharey=True, squeeze=False)
    figure.subplots_adjust(
        left=0.085, right=0.985, top=1 - 0.6 / height, bottom=0.85 / height, wspace=0.08, hspace=0.28
    )
    for axes, row in zip(panels.flat, rows, strict=False):
        _reliability_panel(axes, row, looks[_family(row.router)])
    for axes in panels.flat[len(rows) :]:
        axes.remove()
    for column in range(columns):
        lowest = panels[(len(rows) - 1 - column) // columns, column]
        lowest.set_xlabel("mean predicted quality")
        lowest.tick_params(labelbottom=True)
    for axes in panels[:, 0]:
        axes.set_ylabel("mean label")
    _foot(
        figure,
        study,
        f"Bins of equal mass over all models' predictions. {_BARS} Line: predicted = observed.",
    )
    words = "; ".join(f"{row.router} {score(row.error.value)}" for row in rows)
    return finish(
        figure,
        name="reliability",
        title="Predicted quality and what came of it",
        alt=f"Mean label against mean prediction in up to ten bins; expected calibration error: {words}.",
    )


def _reliability_panel(axes: Axes, row: CalibrationRow, look: Look) -> None:
    axes.plot([0, 1], [0, 1], color=FAINT, lw=0.9, ls="--")
    for each in row.bins:
        if np.isfinite([each.observed.low, each.observed.high]).all():
            axes.plot(
                [each.predicted] * 2, [each.observed.low, each.observed.high], color=look.colour, lw=1.0
            )
    axes.plot(
        [each.predicted for each in row.bins],
        [each.observed.value for each in row.bins],
        look.marker,
        ls=look.dash,
        color=look.colour,
        ms=4.5,
        lw=1.0,
        markeredgecolor=PAPER,
        markeredgewidth=0.6,
    )
    axes.set_title(f"{elided(printable(row.router), 24)}\nerror {score(row.error.value)}", fontsize=8.5)


def _flips(study: RouterStudy) -> Drawing:
    noises = list(dict.fromkeys(row.noise for row in study.flips))
    routers = list(dict.fromkeys(row.router for row in study.flips))
    looks = _looks(study)
    height = 1.5 + 0.42 * len(noises)
    figure = Figure(figsize=(WIDTH_IN, height))
    axes = figure.add_axes((0.25, 0.95 / height, 0.72, 1.0 - 1.55 / height))
    for row in study.flips:
        k = routers.index(row.router)
        at = len(noises) - 1 - noises.index(row.noise) + 0.6 * (0.5 - (k + 0.5) / len(routers))
        look = looks[_family(row.router)]
        if np.isfinite([row.flipped.low, row.flipped.high]).all():
            axes.plot([100 * row.flipped.low, 100 * row.flipped.high], [at, at], color=look.colour, lw=1.1)
        first = row.noise == noises[0]
        axes.plot(
            100 * row.flipped.value,
            at,
            look.marker,
            color=look.colour,
            ms=4.5,
            ls="",
            label=printable(row.router) if first else None,
            markeredgecolor=PAPER,
            markeredgewidth=0.5,
        )
    axes.set_yticks(range(len(noises)), list(reversed(noises)))
    axes.set_ylim(-0.6, len(noises) - 0.4)
    axes.set_xlim(left=0.0)
    axes.set_xlabel("prompts whose model changes, %")
    legend_above(figure, axes.get_legend_handles_labels()[0], fontsize=7.5)
    _foot(figure, study, _BARS)
    worst = max(study.flips, key=lambda row: row.flipped.value)
    return finish(
        figure,
        name="flips",
        title="Choices that change with the wording",
        alt=f"Share of prompts whose model changes under {len(noises)} changes of wording, by router; the "
        f"highest is {100 * worst.flipped.value:.1f} %, {worst.router} under {worst.noise}.",
    )


def _looks(study: RouterStudy) -> dict[str, Look]:
    """A look for each router that a figure draws, the same in all of them."""
    labels = [row.label for row in study.rows if row.kind == "router"]
    labels += [curve.label for curve in study.curves[:-1]]
    labels += [row.router for row in study.calibration] + [row.router for row in study.flips]
    return looks_of(map(_family, labels))


def _family(label: str) -> str:
    """The router's name, without settings: what reports on sweeps colour by too."""
    return label.partition(" ")[0]


def _foot(figure: Figure, study: RouterStudy, text: str) -> None:
    write_foot(figure, f"{text} {population_words(study)}", " · ".join(stamp(study)))
