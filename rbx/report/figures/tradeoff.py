"""Quality against mean latency at one arrival rate, with intervals and the frontier."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Text

from rbx.report.analysis import Analysis, PointResult, RateResult
from rbx.report.figures.drawing import Drawing, finish
from rbx.report.figures.labels import Line, place_labels, write_at_edge
from rbx.report.figures.legend import legend_above
from rbx.report.figures.style import (
    FAINT,
    PAPER,
    WIDTH_IN,
    face,
    family_words,
    foot,
    hollow_key,
    log_where_wide,
    rate_words,
    short_label,
    styled,
)
from rbx.report.looks import Look
from rbx.report.plain_text import printable


def draw_tradeoffs(analysis: Analysis) -> Iterator[Drawing]:
    """One figure a rate, named ``quality-latency-1`` … from the lowest rate up."""
    for number, rate in enumerate(analysis.rates, start=1):
        shown = [r for r in rate.results if _known(r)]
        if not shown:
            continue
        with styled():
            yield _draw(analysis, rate, shown, f"quality-latency-{number}")


def _best_of_others(shown: list[PointResult], named: set[str]) -> list[PointResult]:
    """The policy of highest quality of each family without a named point, in the order of the policies."""
    best: dict[str, PointResult] = {}
    for result in sorted(shown, key=lambda each: -each.means["quality"].value):
        if result.point.family not in named:
            best.setdefault(result.point.family, result)
    return list(best.values())


def _known(result: PointResult) -> bool:
    return bool(np.isfinite([result.means["quality"].value, result.means["e2e_s"].value]).all())


def _draw(analysis: Analysis, rate: RateResult, shown: list[PointResult], name: str) -> Drawing:
    figure = Figure(figsize=(WIDTH_IN, 4.6))
    axes = figure.add_axes((0.085, 0.215, 0.885, 0.655))
    log_where_wide(axes, "x", [result.means["e2e_s"].value for result in shown])
    _scatter(axes, shown, analysis.looks)
    frontier = next(found for found in rate.frontiers if found.plane.name == "latency")
    front = sorted(
        (r.means["e2e_s"].value, r.means["quality"].value)
        for r in shown
        if r.point.label in frontier.non_dominated
    )
    axes.plot(
        [x for x, _ in front], [y for _, y in front], color=FAINT, lw=1, ls=(0, (4, 3)), zorder=1, label=None
    )
    axes.set_xlabel("mean end-to-end latency, seconds (left is better)")
    axes.set_ylabel("mean quality (up is better)")
    legend_above(figure, _keys(shown, analysis.looks))
    points = [(r.means["e2e_s"].value, r.means["quality"].value) for r in shown]
    blocked = _reference_lines(figure, axes, rate, _bars(shown))
    wanted = [r for r in shown if r.point.label in frontier.non_dominated or r is rate.baseline]
    wanted += _best_of_others(shown, {r.point.family for r in wanted})
    named = [(r.means["e2e_s"].value, r.means["quality"].value, short_label(r.point)) for r in wanted]
    steps = list(pairwise(front))
    place_labels(figure, axes, named, points, [*steps, *_bars(shown)], blocked)
    foot(
        figure,
        analysis,
        f"Latency of completed, quality of scored requests.{hollow_key(shown)}",
        results=shown,
        intervals="Bars",
        labels=True,
    )
    where = rate_words(rate.rate_per_s, rate.load)
    front_words = ", ".join(frontier.non_dominated)
    behind = ", ".join(result.point.label for result in shown if result.point.is_overloaded)
    return finish(
        figure,
        name=name,
        title=f"Quality and latency at {where}",
        alt=f"Mean quality against mean latency of {len(shown)} policies at {where}. "
        f"Not dominated: {front_words}." + (f" Not keeping up with arrivals: {behind}." if behind else ""),
    )


def _scatter(axes: Axes, shown: list[PointResult], looks: dict[str, Look]) -> None:
    for result in shown:
        look = looks[result.point.family]
        x, y = result.means["e2e_s"], result.means["quality"]
        axes.errorbar(
            x.value,
            y.value,
            xerr=_arms(x.value, x.low, x.high),
            yerr=_arms(y.value, y.low, y.high),
            fmt=look.marker,
            color=look.colour,
            ecolor=look.colour,
            elinewidth=0.7,
            markersize=6,
            markerfacecolor=face(result.point, look),
            markeredgecolor=look.colour if result.point.is_overloaded else PAPER,
            markeredgewidth=1.1 if result.point.is_overloaded else 0.7,
            alpha=0.95,
            zorder=3,
        )


def _bars(shown: list[PointResult]) -> list[Line]:
    """The error bars as pieces of line; the horizontal one ends where a log axis could not go on."""
    bars: list[Line] = []
    for result in shown:
        x, y = result.means["e2e_s"], result.means["quality"]
        if np.isfinite([x.low, x.high]).all():
            bars.append(((max(x.low, 1e-9), y.value), (x.high, y.value)))
        if np.isfinite([y.low, y.high]).all():
            bars.append(((x.value, y.low), (x.value, y.high)))
    return bars


def _keys(shown: list[PointResult], looks: dict[str, Look]) -> list[Line2D]:
    """A filled marker a family, whether or not a point of it is drawn hollow."""
    return [
        Line2D([], [], ls="", marker=look.marker, ms=6, color=look.colour, label=family_words(family))
        for family, look in looks.items()
        if any(result.point.family == family for result in shown)
    ]


def _reference_lines(figure: Figure, axes: Axes, rate: RateResult, bars: list[Line]) -> list[Text]:
    """Random and best single model as lines; the oracle only in the tables, to keep the scale useful."""
    texts: list[Text] = []
    for words, interval in (
        ("random model", rate.references.random),
        (f"best single: {printable(rate.references.best_single_model)}", rate.references.best_single),
    ):
        if not np.isfinite(interval.value):
            continue
        axes.axhline(interval.value, color=FAINT, lw=0.8, ls=":", zorder=0)
        text = write_at_edge(figure, axes, words, interval.value, bars)
        texts.append(text)
    return texts


def _arms(value: float, low: float, high: float) -> list[list[float]] | None:
    """Lengths of the error bar; a percentile interval need not hold its estimate."""
    if not np.isfinite([low, high]).all():
        return None
    return [[max(0.0, value - low)], [max(0.0, high - value)]]
