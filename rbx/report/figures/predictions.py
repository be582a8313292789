"""TTFT as BEAR predicted it against the TTFT that came: hexagons that count requests, one panel a rate."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rbx.report.analysis import Analysis
from rbx.report.figures.drawing import Drawing, finish
from rbx.report.figures.style import FAINT, WIDTH_IN, foot, plain_log_ticks, rate_words, styled
from rbx.report.ontime.estimator import judge_estimator, predictions_of
from rbx.report.point import Point
from rbx.report.requests import Floats

_MOST_PANELS = 3
_HEXAGONS = 34


def draw_predictions(analysis: Analysis) -> Iterator[Drawing]:
    """The lowest, the middle and the highest rate; nothing where BEAR is not there or predicted nothing."""
    if analysis.on_time is None:
        return
    found = [
        result.point
        for result in analysis.on_time.results
        if result.role.kind == "bear" and len(predictions_of(result.point).measured_s)
    ]
    if not found:
        return
    points = [found[index] for index in sorted({0, len(found) // 2, len(found) - 1})][:_MOST_PANELS]
    with styled():
        figure = Figure(figsize=(WIDTH_IN, 3.35))
        panels = figure.subplots(1, len(points), sharex=True, sharey=True, squeeze=False)[0]
        figure.subplots_adjust(left=0.085, right=0.985, top=0.83, bottom=0.235, wspace=0.07)
        edges = _edges(points)
        for axes, point in zip(panels, points, strict=True):
            _panel(axes, point, edges)
        panels[0].set_ylabel("predicted TTFT, seconds")
        labels = {point.label for point in points}
        foot(
            figure,
            analysis,
            "Completed requests; darker: more of them (log scale). Line: predicted = measured. Above it the "
            "prediction was too long, below it too short.",
            results=[result for result in analysis.results if result.point.label in labels],
        )
        yield finish(
            figure,
            name="predicted-ttft",
            title="TTFT predicted by BEAR and measured",
            alt="Predicted against measured time to first token of BEAR's requests, in hexagons that count "
            "them: " + "; ".join(_words(point) for point in points) + ".",
        )


def _edges(points: list[Point]) -> tuple[float, float]:
    """Common decades of both axes."""
    found = [predictions_of(point) for point in points]
    values: Floats = np.concatenate([each for p in found for each in (p.predicted_s, p.measured_s)])
    known = values[values > 0]
    return float(np.log10(known.min()) - 0.1), float(np.log10(known.max()) + 0.1)


def _panel(axes: Axes, point: Point, edges: tuple[float, float]) -> None:
    found = predictions_of(point)
    floor = 10 ** edges[0]
    axes.hexbin(
        found.measured_s,
        np.maximum(found.predicted_s, floor),
        xscale="log",
        yscale="log",
        gridsize=_HEXAGONS,
        extent=(*edges, *edges),
        bins="log",
        mincnt=1,
        cmap="cividis_r",
        linewidths=0.1,
        zorder=2,
    )
    ends = (10 ** edges[0], 10 ** edges[1])
    axes.plot(ends, ends, color=FAINT, lw=0.9, ls="--", zorder=3)
    axes.set_xlim(ends)
    axes.set_ylim(ends)
    for axis in (axes.xaxis, axes.yaxis):
        plain_log_ticks(axis, ends[1] / ends[0])
    axes.set_xlabel("measured TTFT, seconds")
    axes.set_title(rate_words(point.rate_per_s, point.load))


def _words(point: Point) -> str:
    result = judge_estimator(point)
    if result is None:
        return f"none at {point.rate_per_s:g}"
    return (
        f"at {point.rate_per_s:g} requests per second median error {100 * result.overall.median_ape:.1f} % "
        f"and rank correlation {result.overall.spearman:.2f} over {result.overall.n:,} requests"
    )
