"""What comes in time under load: OnTimeUtility and attainment against the arrival rate."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rbx.report.analysis import Analysis
from rbx.report.figures.drawing import Drawing, finish
from rbx.report.figures.style import FAINT, FAMILY_COLOURS, WIDTH_IN, foot, styled
from rbx.report.number import score
from rbx.report.ontime.study import OnTimeResult, OnTimeStudy
from rbx.report.plain_text import printable

_PANELS = (("on_time_utility", "OnTimeUtility"), ("attainment", "Attainment, share in time"))
# Hues and markers of the lines that matter, in the order in which they are chosen; the first is BEAR's.
_LOOKS = (
    (FAMILY_COLOURS["bear"], "X"),
    (FAMILY_COLOURS["routebalance"], "o"),
    (FAMILY_COLOURS["passthrough"], "s"),
    (FAMILY_COLOURS["always"], "^"),
    (FAMILY_COLOURS["random"], "D"),
    (FAMILY_COLOURS["mix"], "v"),
)
_LEGEND_WIDTH = 34


def draw_on_time(analysis: Analysis) -> Iterator[Drawing]:
    """Nothing without TTFT targets, nor for a single rate: one point makes no curve."""
    study = analysis.on_time
    if study is None or len(study.rates_per_s) < 2:
        return
    named = _main_lines(study)
    with styled():
        figure = Figure(figsize=(WIDTH_IN, 4.3))
        axes = figure.subplots(1, 2)
        figure.subplots_adjust(left=0.075, right=0.985, top=0.79, bottom=0.19, wspace=0.16)
        for each, (metric, title) in zip(axes, _PANELS, strict=True):
            _panel(each, study, named, metric)
            each.set_title(title)
            each.set_xlabel("arrival rate λ, requests per second")
        handles, names = axes[0].get_legend_handles_labels()
        figure.legend(handles, names, loc="upper left", ncols=3, fontsize=7.5, bbox_to_anchor=(0.055, 0.955))
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


def _main_lines(study: OnTimeStudy) -> dict[str, tuple[str, str]]:
    """Looks of BEAR, of the setting of each latency-aware router, and of the best of the rest.

    The first look is BEAR's alone.
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
    return dict(zip(dict.fromkeys(ordered or lines), _LOOKS[not bear :], strict=False))


def _routebalance_first(router: str) -> tuple[bool, str]:
    """So that RouteBalance has the hue that it has everywhere."""
    return router != "RouteBalance", router


def _mean(results: list[OnTimeResult]) -> float:
    known = [result.metrics.on_time_utility for result in results]
    return float(np.mean(known))


def _panel(axes: Axes, study: OnTimeStudy, named: dict[str, tuple[str, str]], metric: str) -> None:
    for label, results in study.by_label().items():
        rate = np.array([result.point.rate_per_s for result in results])
        intervals = [result.over_time[metric] for result in results]
        values = [interval.value for interval in intervals]
        if label not in named:
            axes.plot(rate, values, color=FAINT, lw=0.7, alpha=0.5, zorder=1)
            continue
        hue, shape = named[label]
        axes.plot(
            rate,
            values,
            color=hue,
            marker=shape,
            markersize=5,
            lw=2.4 if label == "bear" else 1.4,
            zorder=3,
            label=_cut(label),
        )
        low, high = [i.low for i in intervals], [i.high for i in intervals]
        axes.fill_between(rate, low, high, color=hue, alpha=0.15, lw=0, zorder=2)
    axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]))
    if metric == "attainment":
        axes.set_ylim(0, 1.02)
        axes.yaxis.set_major_formatter(lambda x, _: f"{100 * x:.0f} %")


def _cut(label: str) -> str:
    text = printable(label)
    return text if len(text) <= _LEGEND_WIDTH else text[: _LEGEND_WIDTH - 1] + "…"
