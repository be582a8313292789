"""Figures of the report on routers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rbx.report.bootstrap import LEVEL
from rbx.report.figures.drawing import Drawing, finish
from rbx.report.figures.labels import Line, place_labels
from rbx.report.figures.style import (
    FAINT,
    FAMILY_COLOURS,
    INK,
    OTHER_COLOUR,
    PAPER,
    WIDTH_IN,
    log_where_wide,
    styled,
    write_foot,
)
from rbx.report.interval import Interval
from rbx.report.number import score
from rbx.report.plain_text import printable
from rbx.report.routers.allocation import BEST_SINGLE, ORACLE, RANDOM
from rbx.report.routers.calibration import CalibrationRow
from rbx.report.routers.curves import Curve
from rbx.report.routers.study import RouterStudy
from rbx.report.routers.tables import population_words
from rbx.report.routers.words import stamp

_HUES = (*[hue for family, hue in FAMILY_COLOURS.items() if family != "bear"], OTHER_COLOUR)
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
_BARS = f"Bars: {100 * LEVEL:.0f} % bootstrap intervals over prompts."
_NAMED = 6


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
    axes = figure.add_axes((0.34, 0.95 / height, 0.63, 1.0 - 1.25 / height))
    for at, row in enumerate(rows):
        hue = FAMILY_COLOURS["routebalance"] if row.kind == "router" else FAINT
        _bar(axes, row.against[BEST_SINGLE], float(at), hue)
    axes.axvline(0.0, color=INK, lw=0.8)
    axes.set_yticks(range(len(rows)), [printable(row.label) for row in rows])
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
    axes = figure.add_axes((0.085, 0.165, 0.885, 0.66))
    references = [row for row in study.rows if row.label in (ORACLE, RANDOM)]
    known = [cost.value for curve in study.curves for cost in curve.cost_usd]
    log_where_wide(axes, "x", [1000 * cost for cost in known])
    for k, curve in enumerate(study.curves[:-1]):
        _curve(axes, curve, _HUES[k % len(_HUES)], _MARKERS[k % len(_MARKERS)])
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
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3, fontsize=7.5, handletextpad=0.4)
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


def _curve(axes: Axes, curve: Curve, hue: str, mark: str) -> None:
    axes.plot(
        [1000 * cost.value for cost in curve.cost_usd],
        [quality.value for quality in curve.quality],
        mark,
        color=hue,
        ms=3,
        alpha=0.45,
        mew=0,
    )
    _hull_line(axes, curve, hue, "-", printable(curve.label), mark)


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
    figure = Figure(figsize=(WIDTH_IN, 3.35))
    panels = figure.subplots(1, len(rows), sharex=True, sharey=True, squeeze=False)[0]
    figure.subplots_adjust(left=0.085, right=0.985, top=0.85, bottom=0.25, wspace=0.08)
    for k, (axes, row) in enumerate(zip(panels, rows, strict=True)):
        _reliability_panel(axes, row, _HUES[k % len(_HUES)])
    panels[0].set_ylabel("mean label")
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


def _reliability_panel(axes: Axes, row: CalibrationRow, hue: str) -> None:
    axes.plot([0, 1], [0, 1], color=FAINT, lw=0.9, ls="--")
    for each in row.bins:
        if np.isfinite([each.observed.low, each.observed.high]).all():
            axes.plot([each.predicted] * 2, [each.observed.low, each.observed.high], color=hue, lw=1.0)
    axes.plot(
        [each.predicted for each in row.bins],
        [each.observed.value for each in row.bins],
        "o-",
        color=hue,
        ms=4.5,
        lw=1.0,
        markeredgecolor=PAPER,
        markeredgewidth=0.6,
    )
    axes.set_title(f"{printable(row.router)}: error {score(row.error.value)}")
    axes.set_xlabel("mean predicted quality")


def _flips(study: RouterStudy) -> Drawing:
    noises = list(dict.fromkeys(row.noise for row in study.flips))
    routers = list(dict.fromkeys(row.router for row in study.flips))
    height = 1.5 + 0.42 * len(noises)
    figure = Figure(figsize=(WIDTH_IN, height))
    axes = figure.add_axes((0.25, 0.95 / height, 0.72, 1.0 - 1.55 / height))
    for row in study.flips:
        k = routers.index(row.router)
        at = len(noises) - 1 - noises.index(row.noise) + 0.6 * (0.5 - (k + 0.5) / len(routers))
        hue = _HUES[k % len(_HUES)]
        if np.isfinite([row.flipped.low, row.flipped.high]).all():
            axes.plot([100 * row.flipped.low, 100 * row.flipped.high], [at, at], color=hue, lw=1.1)
        first = row.noise == noises[0]
        axes.plot(
            100 * row.flipped.value,
            at,
            _MARKERS[k % len(_MARKERS)],
            color=hue,
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
    axes.legend(loc="lower center", bbox_to_anchor=(0.4, 1.0), ncols=5, fontsize=7.5, handletextpad=0.3)
    _foot(figure, study, _BARS)
    worst = max(study.flips, key=lambda row: row.flipped.value)
    return finish(
        figure,
        name="flips",
        title="Choices that change with the wording",
        alt=f"Share of prompts whose model changes under {len(noises)} changes of wording, by router; the "
        f"highest is {100 * worst.flipped.value:.1f} %, {worst.router} under {worst.noise}.",
    )


def _foot(figure: Figure, study: RouterStudy, text: str) -> None:
    write_foot(figure, f"{text} {population_words(study)}", " · ".join(stamp(study)))
