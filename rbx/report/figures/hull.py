"""Hulls of each family: quality against throughput at each rate, and against cost over all rates."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rbx.report.analysis import Analysis, PointResult
from rbx.report.figures.drawing import Drawing, finish
from rbx.report.figures.legend import legend_above
from rbx.report.figures.style import (
    PAPER,
    WIDTH_IN,
    family_words,
    foot,
    log_where_wide,
    rate_words,
    styled,
)
from rbx.report.frontier import upper_hull
from rbx.report.plane import PLANES, Plane, coordinates

Panel = tuple[tuple[PointResult, ...], str]

_MAX_PANELS = 3
_SCALE = {"throughput": 1.0, "cost": 1000.0}
_AXES = {
    "throughput": "throughput: requests per second completed within the arrival window (right is better)",
    "cost": "cost, USD per 1,000 completed requests (left is better)",
}


def draw_hulls(analysis: Analysis) -> Iterator[Drawing]:
    """One figure for throughput, with a panel a rate, and one for cost over all rates."""
    chosen = np.unique(np.linspace(0, len(analysis.rates) - 1, _MAX_PANELS).round().astype(int))
    rates = [analysis.rates[index] for index in chosen]
    for plane in PLANES:
        if plane.name == "throughput":
            others = "Faint: the other rates. " if len(analysis.rates) > 1 else ""
            words = f"{others}Lines: hulls at the panel's rate."
            panels = [(rate.results, rate_words(rate.rate_per_s, rate.load)) for rate in rates]
            yield _draw(analysis, plane, panels, f"All policies. {words}", "at each arrival rate")
        elif plane.name == "cost":
            panels = [(analysis.results, "")]
            yield _draw(analysis, plane, panels, "All policies, all rates; lines: hulls.", "all rates")


def _draw(analysis: Analysis, plane: Plane, panels: list[Panel], words: str, where: str) -> Drawing:
    with styled():
        figure = Figure(figsize=(WIDTH_IN, 4.3))
        columns = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
        figure.subplots_adjust(left=0.085, right=0.97, top=0.82, bottom=0.2, wspace=0.08)
        best: dict[str, str] = {}
        for axes, (own, title) in zip(columns, panels, strict=True):
            best = _families(axes, analysis, own, plane) or best
            axes.set_title(title)
        columns[0].set_ylabel("mean quality (up is better)")
        figure.supxlabel(_AXES[plane.name], fontsize=9, y=0.085)
        keys = {name: handle for axes in columns for handle, name in zip(*_legend(axes), strict=True)}
        legend_above(figure, list(keys.values()))
        foot(figure, analysis, words, results=analysis.results, intervals="Bars")
        ends = "; ".join(f"{family_words(family)}: {label}" for family, label in best.items())
        return finish(
            figure,
            name=f"quality-{plane.name}",
            title=f"{plane.title}, {where}",
            alt=f"{plane.title}, {where}: upper hull of each policy family. "
            f"Highest quality of each family: {ends}.",
        )


def _legend(axes: Axes) -> tuple[list[Artist], list[str]]:
    handles, names = axes.get_legend_handles_labels()
    return list(handles), [str(name) for name in names]


def _families(axes: Axes, analysis: Analysis, own: tuple[PointResult, ...], plane: Plane) -> dict[str, str]:
    """Draw the panel's points by family over faint others; returns the first vertex of each hull."""
    families: dict[str, list[PointResult]] = {}
    for result in own:
        families.setdefault(result.point.family, []).append(result)
    scale = _SCALE[plane.name]
    if plane.lower_is_better:
        log_where_wide(axes, "x", [plane.value(result.point) for result in analysis.results])
    for result in analysis.results:
        if not any(result is mine for mine in own):
            point = result.point
            look = analysis.looks[point.family]
            at = plane.value(point) * scale
            axes.plot(
                at,
                point.metrics.quality_mean,
                look.marker,
                color=look.colour,
                ms=3,
                alpha=0.15,
                mew=0,
                zorder=1,
            )
    ends = {}
    for family, results in families.items():
        look = analysis.looks[family]
        points = [result.point for result in results]
        gain, quality = coordinates(points, plane)
        x = np.abs(gain) * scale
        axes.plot(
            x,
            quality,
            look.marker,
            color=look.colour,
            markersize=4.5,
            alpha=0.45,
            markeredgecolor=PAPER,
            markeredgewidth=0.4,
        )
        hull = upper_hull(gain, quality)
        if hull:
            axes.plot(
                x[hull],
                quality[hull],
                color=look.colour,
                marker=look.marker,
                ls=look.dash,
                markersize=6,
                markeredgecolor=PAPER,
                markeredgewidth=0.5,
                lw=1.8,
                label=family_words(family),
            )
            _quality_bars(axes, x, results, hull, look.colour)
            ends[family] = points[hull[0]].label
    return ends


def _quality_bars(
    axes: Axes,
    x: np.ndarray[tuple[int, ...], np.dtype[np.float64]],
    results: list[PointResult],
    hull: list[int],
    hue: str,
) -> None:
    intervals = [results[index].means["quality"] for index in hull]
    axes.vlines(
        x[hull], [i.low for i in intervals], [i.high for i in intervals], color=hue, lw=0.8, alpha=0.7
    )
