"""Per-rate radar: quality, cost, mean latency and p99 latency, each as a fraction of the best drawn."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from rbx.report.analysis import Analysis, RateResult
from rbx.report.figures.drawing import Drawing, finish
from rbx.report.figures.style import PAPER, WIDTH_IN, foot, hollow_key, rate_words, short_label, styled
from rbx.report.point import Point
from rbx.report.requests import Floats

_AXES = ("quality", "cost", "mean\nlatency", "p99\nlatency")
_LINES = (
    ("#0072b2", "-"),
    ("#56b4e9", "-"),
    ("#009e73", "--"),
    ("#d55e00", "-"),
    ("#e69f00", "--"),
    ("#cc79a7", ":"),
)
_MAX_PANELS = 4


def draw_radar(analysis: Analysis) -> Iterator[Drawing]:
    """Up to four rates, spread over those of the sweep; the same few policies in each."""
    chosen = _chosen(analysis)
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
            _panel(axes, rate, chosen)
        drawn = [result for rate in rates for result in rate.results if result.point.label in chosen]
        key = hollow_key(drawn)
        lift = 0.045 if key else 0.0  # room for one more line at the foot
        figure.subplots_adjust(left=0.06, right=0.94, top=0.80, bottom=0.28 + lift, wspace=0.4)
        handles, names = figure.axes[0].get_legend_handles_labels()
        figure.legend(
            handles, names, loc="lower center", ncols=3, fontsize=8, bbox_to_anchor=(0.5, 0.085 + lift)
        )
        foot(
            figure,
            analysis,
            f"Outer ring: best of those drawn; half-way in: twice its cost or time.{key}",
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


def _chosen(analysis: Analysis) -> dict[str, str]:
    """Label → short name: RouteBalance of best quality, least latency and least cost, and two others."""
    points = [result.point for result in analysis.middle.results if np.isfinite(_figures(result.point)).all()]
    fused = [point for point in points if point.is_fused]
    others = [point for point in points if not (point.is_fused or point.is_reference)]
    picked: list[Point] = []
    if fused:
        picked += [
            max(fused, key=lambda point: point.metrics.quality_mean),
            min(fused, key=lambda point: point.metrics.e2e_s.mean),
            min(fused, key=lambda point: point.metrics.cost_per_request_usd),
        ]
    picked += [point for point in points if point.label == analysis.baseline_label]
    if others:
        picked += [
            max(others, key=lambda point: point.metrics.quality_mean),
            min(others, key=lambda point: point.metrics.cost_per_request_usd),
        ]
    prefix = {True: "RouteBalance ", False: ""}
    return {point.label: prefix[point.is_fused] + short_label(point, 30) for point in picked}


def _figures(point: Point) -> Floats:
    m = point.metrics
    return np.array([m.quality_mean, m.cost_per_request_usd, m.e2e_s.mean, m.e2e_s.p99])


def _panel(axes: Any, rate: RateResult, chosen: dict[str, str]) -> None:
    drawn = [result.point for result in rate.results if result.point.label in chosen]
    values = np.array([_figures(point) for point in drawn])
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.column_stack(
            [values[:, 0] / values[:, 0].max(), values[:, 1:].min(axis=0) / values[:, 1:]]
        )
    angle = np.linspace(0, 2 * np.pi, len(_AXES), endpoint=False)
    order = list(chosen)
    for point, row in zip(drawn, share, strict=True):
        hue, dash = _LINES[order.index(point.label)]
        ring = np.append(row, row[0])
        axes.plot(np.append(angle, 0.0), ring, color=hue, ls=dash, lw=1.6, label=chosen[point.label])
        if point.is_overloaded:
            axes.plot(angle[2:], row[2:], "o", ms=4, mfc=PAPER, mec=hue, mew=1.1, ls="", zorder=4)
    axes.set_theta_offset(np.pi / 2)
    axes.set_theta_direction(-1)
    axes.set_xticks(angle, _AXES, fontsize=7.5)
    axes.tick_params(axis="x", pad=1)
    axes.set_ylim(0, 1.02)
    axes.set_yticks([0.25, 0.5, 0.75, 1.0], ["", "", "", ""])
    axes.spines["polar"].set_visible(False)
    axes.set_title(rate_words(rate.rate_per_s, rate.load), loc="center", pad=16, fontsize=8.5)
