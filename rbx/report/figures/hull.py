"""Hulls of each family over all rates: quality against throughput, and against cost."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rbx.report.analysis import Analysis, PointResult
from rbx.report.figures.drawing import Drawing, finish
from rbx.report.figures.style import (
    PAPER,
    WIDTH_IN,
    colour,
    family_words,
    foot,
    log_where_wide,
    marker,
    styled,
)
from rbx.report.frontier import upper_hull
from rbx.report.plane import PLANES, Plane, coordinates

_SCALE = {"throughput": 1.0, "cost": 1000.0}
_AXES = {
    "throughput": "throughput, requests per second completed within the arrival window (right is better)",
    "cost": "cost, USD per 1,000 completed requests (left is better)",
}


def draw_hulls(analysis: Analysis) -> Iterator[Drawing]:
    """One figure for throughput and one for cost."""
    for plane in PLANES:
        if plane.name not in _SCALE:
            continue
        with styled():
            figure = Figure(figsize=(WIDTH_IN, 4.3))
            axes = figure.add_axes((0.085, 0.175, 0.885, 0.675))
            hulls = _families(axes, analysis, plane)
            axes.set_xlabel(_AXES[plane.name])
            axes.set_ylabel("mean quality (up is better)")
            if hulls:
                axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=6, fontsize=8)
            foot(
                figure,
                analysis,
                "All policies, all rates; lines: hulls.",
                results=analysis.results,
                intervals="Bars",
            )
            best = "; ".join(f"{family_words(family)}: {label}" for family, label in hulls.items())
            yield finish(
                figure,
                name=f"quality-{plane.name}",
                title=f"{plane.title}, all rates",
                alt=f"{plane.title}: upper hull of each policy family over all arrival rates. "
                f"Highest quality of each family: {best}.",
            )


def _families(axes: Axes, analysis: Analysis, plane: Plane) -> dict[str, str]:
    """Draw every family; returns the label of the first vertex of its hull."""
    families: dict[str, list[PointResult]] = {}
    for result in analysis.results:
        families.setdefault(result.point.family, []).append(result)
    scale = _SCALE[plane.name]
    if plane.lower_is_better:
        log_where_wide(axes, "x", [plane.value(result.point) for result in analysis.results])
    ends = {}
    for family, results in families.items():
        points = [result.point for result in results]
        gain, quality = coordinates(points, plane)
        x = np.abs(gain) * scale
        axes.plot(
            x,
            quality,
            marker(family),
            color=colour(family),
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
                color=colour(family),
                marker=marker(family),
                markersize=6,
                markeredgecolor=PAPER,
                lw=1.8,
                label=family_words(family),
            )
            _quality_bars(axes, x, results, hull, colour(family))
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
