"""Per-rate radar: quality, cost, mean latency and p99 latency, each as a fraction of the best drawn."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from rbx.report.analysis import Analysis, RateResult
from rbx.report.figures.drawing import Drawing, finish
from rbx.report.figures.legend import legend_above
from rbx.report.figures.style import (
    PAPER,
    WIDTH_IN,
    family_words,
    foot,
    hollow_key,
    rate_words,
    short_label,
    styled,
)
from rbx.report.looks import DASHES
from rbx.report.point import Point
from rbx.report.requests import Floats

_AXES = ("quality", "cost", "mean\nlatency", "p99\nlatency")
_MAX_PANELS = 4
_MAX_OTHERS = 8  # families beside RouteBalance; more lines than these can't be told apart
_WHY = (
    "Drawn: RouteBalance of highest quality, least latency and least cost, the baseline, and of each other "
    "family but references the policy of highest quality, at the middle rate."
)


def draw_radar(analysis: Analysis) -> Iterator[Drawing]:
    """Up to four rates, spread over those of the sweep; the same few policies in each."""
    chosen, left_out = _chosen(analysis)
    lines = _lines(analysis, list(chosen))
    if len(chosen) < 2:
        return
    # In an unfinished sweep a rate may have none of them.
    known = [rate for rate in analysis.rates if any(r.point.label in chosen for r in rate.results)]
    at = np.unique(np.linspace(0, len(known) - 1, _MAX_PANELS).round().astype(int))
    rates = [known[index] for index in at]
    with styled():
        figure = Figure(figsize=(WIDTH_IN, 3.6 if len(rates) > 2 else 3.9))
        for column, rate in enumerate(rates):
            axes: Any = figure.add_subplot(1, len(rates), column + 1, projection="polar")
            _panel(axes, rate, chosen, lines)
        drawn = [result for rate in rates for result in rate.results if result.point.label in chosen]
        note = f" Left out, as of lower quality: {', '.join(left_out)}." if left_out else ""
        words = (
            f"Outer ring: best of those drawn; half-way in: twice its cost or time.{hollow_key(drawn)} "
            f"{_WHY}{note}"
        )
        figure.subplots_adjust(left=0.06, right=0.94, top=0.72, bottom=0.27, wspace=0.4)
        legend_above(figure, [Line2D([], [], **lines[label], label=name) for label, name in chosen.items()])
        foot(
            figure,
            analysis,
            words,
            results=analysis.results,
            labels=True,
        )
        yield finish(
            figure,
            name="radar",
            title="Quality, cost and latency at a glance",
            alt="For each arrival rate, quality, cost, mean latency and p99 latency of "
            f"{', '.join(chosen.values())}, as fractions of the best of them.",
        )


def _chosen(analysis: Analysis) -> tuple[dict[str, str], list[str]]:
    """Label → short name of the policies that ``_WHY`` speaks of, and the families that had no room."""
    points = [result.point for result in analysis.middle.results if np.isfinite(_figures(result.point)).all()]
    fused = [point for point in points if point.is_fused]
    picked: list[Point] = []
    if fused:
        picked += [
            max(fused, key=lambda point: point.metrics.quality_mean),
            min(fused, key=lambda point: point.metrics.e2e_s.mean),
            min(fused, key=lambda point: point.metrics.cost_per_request_usd),
        ]
    picked += [point for point in points if point.label == analysis.baseline_label]
    best: dict[str, Point] = {}
    for point in sorted(points, key=lambda point: -point.metrics.quality_mean):
        if not (point.is_fused or point.is_reference):
            best.setdefault(point.family, point)
    families = list(best)
    picked += [best[family] for family in analysis.looks if family in families[:_MAX_OTHERS]]
    prefix = {True: "RouteBalance ", False: ""}
    names = {point.label: prefix[point.is_fused] + short_label(point, 44) for point in picked}
    return names, [family_words(family) for family in families[_MAX_OTHERS:]]


def _lines(analysis: Analysis, labels: list[str]) -> dict[str, dict[str, Any]]:
    """Colour and dash of each line: a family's own, and the next dashes for more lines of it."""
    family = {result.point.label: result.point.family for result in analysis.results}
    seen: dict[str, int] = {}
    lines = {}
    for label in labels:
        look = analysis.looks[family[label]]
        nth = seen[look.hue] = seen.get(look.hue, -1) + 1
        lines[label] = {
            "color": look.colour,
            "ls": DASHES[nth % len(DASHES)],
            "marker": look.marker,
            "ms": 3.5,
        }
    return lines


def _figures(point: Point) -> Floats:
    m = point.metrics
    return np.array([m.quality_mean, m.cost_per_request_usd, m.e2e_s.mean, m.e2e_s.p99])


def _panel(axes: Any, rate: RateResult, chosen: dict[str, str], lines: dict[str, dict[str, Any]]) -> None:
    drawn = [result.point for result in rate.results if result.point.label in chosen]
    values = np.array([_figures(point) for point in drawn])
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.column_stack(
            [values[:, 0] / values[:, 0].max(), values[:, 1:].min(axis=0) / values[:, 1:]]
        )
    angle = np.linspace(0, 2 * np.pi, len(_AXES), endpoint=False)
    for point, row in zip(drawn, share, strict=True):
        line = lines[point.label]
        ring = np.append(row, row[0])
        axes.plot(np.append(angle, 0.0), ring, lw=1.6, **line)
        if point.is_overloaded:
            axes.plot(
                angle[2:],
                row[2:],
                line["marker"],
                ms=4.5,
                mfc=PAPER,
                mec=line["color"],
                mew=1.1,
                ls="",
                zorder=4,
            )
    axes.set_theta_offset(np.pi / 2)
    axes.set_theta_direction(-1)
    axes.set_xticks(angle, _AXES, fontsize=7.5)
    axes.tick_params(axis="x", pad=1)
    axes.set_ylim(0, 1.02)
    axes.set_yticks([0.25, 0.5, 0.75, 1.0], ["", "", "", ""])
    axes.spines["polar"].set_visible(False)
    axes.set_title(rate_words(rate.rate_per_s, rate.load), loc="center", pad=16, fontsize=8.5)
