"""What comes in time under load: OnTimeUtility and attainment against the arrival rate."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rbx.report.analysis import Analysis
from rbx.report.figures.drawing import Drawing, finish
from rbx.report.figures.legend import legend_above
from rbx.report.figures.style import FAINT, WIDTH_IN, elided, foot, styled
from rbx.report.looks import DASHES, Look
from rbx.report.number import score
from rbx.report.ontime.study import OnTimeResult, OnTimeStudy
from rbx.report.plain_text import printable

_PANELS = (("on_time_utility", "OnTimeUtility"), ("attainment", "Attainment, share in time"))
_MOST_LINES = 6
_LEGEND_WIDTH = 48


def draw_on_time(analysis: Analysis) -> Iterator[Drawing]:
    """Nothing without TTFT targets, nor for a single rate: one point makes no curve."""
    study = analysis.on_time
    if study is None or len(study.rates_per_s) < 2:
        return
    named = _main_lines(study, analysis.looks)
    with styled():
        figure = Figure(figsize=(WIDTH_IN, 4.3))
        axes = figure.subplots(1, 2)
        figure.subplots_adjust(left=0.075, right=0.985, top=0.79, bottom=0.19, wspace=0.16)
        for each, (metric, title) in zip(axes, _PANELS, strict=True):
            _panel(each, study, named, metric)
            each.set_title(title)
            each.set_xlabel("arrival rate λ, requests per second")
        legend_above(figure, axes[0].get_legend_handles_labels()[0], fontsize=7.5)
        foot(
            figure,
            analysis,
            f"All scheduled requests; utility: quality − {study.rule.cost_weight_per_usd:g} per USD · cost. "
            "Grey: the other policies.",
            results=analysis.results,
            intervals="Bands",
            over="blocks of time",
        )
        yield finish(
            figure,
            name="on-time",
            title="What comes in time",
            alt="OnTimeUtility and attainment against the arrival rate, one line a policy. Mean "
            "OnTimeUtility over the rates: "
            + "; ".join(f"{label} {score(_mean(mine))}" for label, mine in study.by_label().items())
            + ".",
        )


def _main_lines(study: OnTimeStudy, looks: dict[str, Look]) -> dict[str, Look]:
    """Looks of BEAR, of the setting of each latency-aware router, and of the best of the rest.

    Lines of one family have its hue and marker, and the next dash each.
    """
    lines = study.by_label()
    comparison = study.comparison
    bear = [label for label, mine in lines.items() if mine[0].role.kind == "bear"]
    settings = {} if comparison is None else comparison.settings
    aware = [
        label
        for label, mine in lines.items()
        if mine[0].role.latency_aware and settings.get(mine[0].role.router, label) == label
    ]
    baselines = [label for label, mine in lines.items() if mine[0].role.kind == "baseline"]
    ordered = [
        *bear,
        *sorted(aware, key=lambda label: _routebalance_first(lines[label][0].role.router)),
        *baselines,
    ]
    named: dict[str, Look] = {}
    for label in list(dict.fromkeys(ordered or lines))[:_MOST_LINES]:
        look = looks[lines[label][0].point.family]
        nth = sum(other.hue == look.hue for other in named.values())
        named[label] = look._replace(dash=DASHES[nth % len(DASHES)])
    return named


def _routebalance_first(router: str) -> tuple[bool, str]:
    """So that RouteBalance is drawn however many routers there are."""
    return router != "RouteBalance", router


def _mean(results: list[OnTimeResult]) -> float:
    known = [result.metrics.on_time_utility for result in results]
    return float(np.mean(known))


def _panel(axes: Axes, study: OnTimeStudy, named: dict[str, Look], metric: str) -> None:
    for label, results in study.by_label().items():
        rate = np.array([result.point.rate_per_s for result in results])
        intervals = [result.over_time[metric] for result in results]
        values = [interval.value for interval in intervals]
        if label not in named:
            axes.plot(rate, values, color=FAINT, lw=0.7, alpha=0.5, zorder=1)
            continue
        look = named[label]
        axes.plot(
            rate,
            values,
            color=look.colour,
            marker=look.marker,
            ls=look.dash,
            markersize=5,
            lw=2.4 if label == "bear" else 1.4,
            zorder=3,
            label=elided(printable(label), _LEGEND_WIDTH),
        )
        low, high = [i.low for i in intervals], [i.high for i in intervals]
        axes.fill_between(rate, low, high, color=look.colour, alpha=0.15, lw=0, zorder=2)
    axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]))
    if metric == "attainment":
        axes.set_ylim(0, 1.02)
        axes.yaxis.set_major_formatter(lambda x, _: f"{100 * x:.0f} %")
