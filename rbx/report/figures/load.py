"""Latency under load: mean end-to-end time and time to first token against the arrival rate."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
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
    hollow_key,
    log_where_wide,
    styled,
)
from rbx.report.looks import Look
from rbx.report.requests import Floats

_PANELS = (("e2e_s", "Mean end-to-end latency, seconds"), ("ttft_s", "Mean time to first token, seconds"))


def draw_load(analysis: Analysis) -> Iterator[Drawing]:
    """Nothing for a single rate: one point makes no curve."""
    if len(analysis.rates) < 2:
        return
    with styled():
        figure = Figure(figsize=(WIDTH_IN, 4.0))
        left, right = figure.subplots(1, 2)
        figure.subplots_adjust(left=0.065, right=0.985, top=0.79, bottom=0.21, wspace=0.16)
        for axes, (metric, title) in zip((left, right), _PANELS, strict=True):
            _panel(axes, analysis, metric)
            axes.set_title(title)
            axes.set_xlabel("arrival rate λ, requests per second")
        legend_above(figure, left.get_legend_handles_labels()[0])
        foot(
            figure,
            analysis,
            f"Completed requests. Thick: fastest policy of a family.{hollow_key(analysis.results)}",
            results=analysis.results,
            intervals="Bands",
        )
        yield finish(
            figure,
            name="latency-load",
            title="Latency under load",
            alt="Mean end-to-end latency and mean time to first token against the arrival rate, one line "
            "a policy, coloured by family; markers are hollow where a policy does not keep up with arrivals.",
        )


def _panel(axes: Axes, analysis: Analysis, metric: str) -> None:
    lines: dict[str, list[PointResult]] = {}
    for result in analysis.results:
        lines.setdefault(result.point.label, []).append(result)
    best = _best_of_family(lines)
    log_where_wide(axes, "y", [result.means[metric].value for result in analysis.results])
    for label, results in lines.items():
        family = results[0].point.family
        look = analysis.looks[family]
        leads = best[family] == label
        rate = np.array([result.point.rate_per_s for result in results])
        intervals = [result.means[metric] for result in results]
        axes.plot(
            rate,
            [interval.value for interval in intervals],
            color=look.colour,
            marker=look.marker if leads else None,
            ls=look.dash,
            markersize=4.5,
            lw=2 if leads else 0.8,
            alpha=1 if leads else 0.4,
            zorder=3 if leads else 2,
            label=family_words(family) if leads else None,
        )
        _hollow(axes, look, rate, results, metric, 4.5 if leads else 2.5)
        if leads:
            low, high = [i.low for i in intervals], [i.high for i in intervals]
            axes.fill_between(rate, low, high, color=look.colour, alpha=0.18, lw=0, zorder=1)


def _hollow(
    axes: Axes, look: Look, rate: Floats, results: list[PointResult], metric: str, size: float
) -> None:
    """Hollow markers over the points of one line that do not keep up with their arrivals."""
    behind = [index for index, result in enumerate(results) if result.point.is_overloaded]
    axes.plot(
        rate[behind],
        [results[index].means[metric].value for index in behind],
        ls="",
        marker=look.marker,
        markersize=size,
        markerfacecolor=PAPER,
        markeredgecolor=look.colour,
        markeredgewidth=1.1 if size > 3 else 0.6,
        zorder=4 if size > 3 else 2.5,
    )


def _best_of_family(lines: dict[str, list[PointResult]]) -> dict[str, str]:
    """Label of each family's policy with the lowest E2E, averaged over the rates on a log scale."""
    best: dict[str, tuple[float, float, str]] = {}
    for label, results in lines.items():
        level = float(np.mean(np.log([max(r.means["e2e_s"].value, 1e-9) for r in results])))
        # A policy that lacks a rate can't stand for its family while another has them all.
        key = (-len(results), level, label)
        family = results[0].point.family
        best[family] = min(best.get(family, key), key)
    return {family: label for family, (_, _, label) in best.items()}
