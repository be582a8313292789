"""Which tiers answered: stacked shares of each policy at the middle rate."""

from __future__ import annotations

from collections.abc import Iterator

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from rbx.report.analysis import Analysis
from rbx.report.figures.drawing import Drawing, finish
from rbx.report.figures.labels import widest_in
from rbx.report.figures.legend import legend_above
from rbx.report.figures.style import ON_DARK, ON_LIGHT, PAPER, WIDTH_IN, foot, rate_words, short_label, styled
from rbx.report.plain_text import printable
from rbx.report.point import Point

_MOST_CHARACTERS = 48
_NAMED_FROM = 0.08  # narrower segments have no room for a number


def draw_mix(analysis: Analysis) -> Iterator[Drawing]:
    """One bar a policy, RouteBalance first and from little to much weight on quality."""
    rate = analysis.middle
    points = sorted((r.point for r in rate.results if r.point.metrics.tier_share), key=_order)
    if not points:
        return
    tiers = _tiers(analysis, points)
    with styled():
        height = 1.5 + 0.235 * len(points)
        figure = Figure(figsize=(WIDTH_IN, height))
        names = [short_label(point, _MOST_CHARACTERS) for point in points]
        left = (widest_in(figure, names, 8) + 0.15) / WIDTH_IN
        axes = figure.add_axes((left, 0.66 / height, 0.96 - left, 1 - 1.26 / height))
        _bars(axes, points, names, tiers)
        legend_above(figure, axes.get_legend_handles_labels()[0])
        foot(
            figure,
            analysis,
            f"Completed requests at {rate_words(rate.rate_per_s, rate.load)}.",
            results=rate.results,
            labels=True,
        )
        yield finish(
            figure,
            name="tier-mix",
            title=f"Tier mix at {rate_words(rate.rate_per_s, rate.load)}",
            alt="Share of completed requests that each tier answered, one bar a policy: "
            + "; ".join(f"{p.label}: {_words(p)}" for p in points)
            + ".",
        )


def _order(point: Point) -> tuple[bool, tuple[float, ...]]:
    weights = point.policy.get("weights") if point.is_fused else None
    return (not point.is_fused, tuple(-float(weight) for weight in weights) if weights else ())


def _tiers(analysis: Analysis, points: list[Point]) -> list[str]:
    """Tiers in the order of the pool, and after them any that only the records know."""
    known = [str(tier["name"]) for tier in (analysis.sweep.manifest.get("pool") or {}).get("tiers", [])]
    seen = sorted({tier for point in points for tier in point.metrics.tier_share})
    return known + [tier for tier in seen if tier not in known]


def _bars(axes: Axes, points: list[Point], names: list[str], tiers: list[str]) -> None:
    hues = mpl.colormaps["cividis"](np.linspace(0.12, 0.95, len(tiers)))
    start = np.zeros(len(points))
    rows = np.arange(len(points))
    for tier, hue in zip(tiers, hues, strict=True):
        share = np.array([point.metrics.tier_share.get(tier, 0.0) for point in points])
        axes.barh(
            rows,
            share,
            left=start,
            height=0.8,
            color=to_hex(hue),
            edgecolor=PAPER,
            lw=0.8,
            label=printable(tier),
        )
        ink = ON_DARK if np.dot(hue[:3], (0.299, 0.587, 0.114)) < 0.55 else ON_LIGHT
        for row in map(int, np.flatnonzero(share >= _NAMED_FROM)):
            middle = start[row] + share[row] / 2
            axes.text(
                middle, row, f"{100 * share[row]:.0f}", color=ink, fontsize=7.5, ha="center", va="center"
            )
        start = start + share
    axes.set_yticks(rows, names, fontsize=8)
    axes.set_ylim(len(points) - 0.4, -0.6)
    axes.set_xlim(0, 1)
    axes.xaxis.set_major_formatter(lambda x, _: f"{100 * x:.0f} %")
    axes.grid(visible=False)
    axes.spines[["left", "bottom"]].set_visible(False)
    axes.tick_params(length=0)


def _words(point: Point) -> str:
    return ", ".join(f"{tier} {100 * share:.0f} %" for tier, share in point.metrics.tier_share.items())
