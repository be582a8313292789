"""Settings of the figures, ink, and the words that stand on them.

Ink, paper and rules are drawn in fixed colours that the page later swaps for its own, so that one
drawing reads on light and on dark.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal, cast

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator

from rbx.report.analysis import Analysis, PointResult
from rbx.report.bootstrap import LEVEL
from rbx.report.engine import kinds
from rbx.report.keeping_up import OVERLOADED_WORDS
from rbx.report.looks import Look
from rbx.report.plain_text import printable
from rbx.report.point import Point

INK, PAPER, RULE, FAINT = "#1b1f24", "#ffffff", "#d8dce2", "#6b7480"
ON_DARK, ON_LIGHT = "#fefefe", "#010101"  # text inside coloured areas keeps its colour on any page

FAMILY_WORDS = {
    "routebalance": "RouteBalance",
    "always": "one model always",
    "random": "random model",
    "bear": "BEAR, its variants",
}

_DISPATCH_LETTERS = {"round-robin": "RR", "shortest-queue": "SQ", "random": "RD"}
LABEL_KEY = "RouteBalance: weights % of quality/latency/cost. RR round-robin, SQ shortest queue, RD random."

WIDTH_IN = 7.2
_FOOT_CHARACTERS = 132
_SETTINGS: dict[str, Any] = {
    "font.size": 9,
    "font.family": "sans-serif",
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "axes.titlesize": 9.5,
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
    "axes.facecolor": "none",
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.8,
    "grid.color": RULE,
    "grid.linewidth": 0.6,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "text.color": INK,
    "text.parse_math": False,  # a label with a dollar sign is text, not a formula
    "figure.facecolor": PAPER,
    "savefig.facecolor": PAPER,
    "legend.frameon": False,
    "pdf.fonttype": 42,  # TrueType inside: journals refuse Type 3 fonts
    "svg.fonttype": "none",
    "svg.hashsalt": "rbx",
    "lines.linewidth": 1.4,
}


@contextmanager
def styled() -> Iterator[None]:
    """Draw within these settings, whatever the user's own matplotlib file says."""
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(cast(Any, _SETTINGS))
        yield


def face(point: Point, look: Look) -> str:
    """Fill of a point's marker: hollow where the policy does not keep up with its arrivals."""
    return PAPER if point.is_overloaded else look.colour


def hollow_key(results: Sequence[PointResult]) -> str:
    """What a hollow marker says, where one is drawn."""
    overloaded = any(result.point.is_overloaded for result in results)
    return f" Hollow: {OVERLOADED_WORDS}." if overloaded else ""


def family_words(family: str) -> str:
    """Name of a family in a legend."""
    return FAMILY_WORDS.get(family, printable(family))


def short_label(point: Point, width: int = 26) -> str:
    """Weights in per cent for RouteBalance (quality/latency/cost), else the label abbreviated, ``elided``."""
    weights = point.policy.get("weights") if point.is_fused else None
    if isinstance(weights, (list, tuple)) and len(weights) == 3:
        extra = printable(point.label).split("c", 1)[-1].partition(" ")[2]
        return "/".join(f"{100 * weight:.0f}" for weight in weights) + (f" {extra}" if extra else "")
    text = printable(point.label).removeprefix("always:")
    for dispatch, letters in _DISPATCH_LETTERS.items():
        text = text.replace(f"/{dispatch}", f" {letters}")
    return elided(text, width)


def elided(text: str, width: int) -> str:
    """At most ``width`` characters: of a longer text the start and the end, an ellipsis between them."""
    kept = max(width - 1, 2)
    return text if len(text) <= width else f"{text[: kept - kept // 2]}…{text[-(kept // 2) :]}"


def rate_words(rate_per_s: float, load: float | None) -> str:
    """``λ = 12 req/s (60 % load)``."""
    return f"λ = {rate_per_s:g} req/s" + ("" if load is None else f" ({100 * load:.0f} % load)")


def stamp(analysis: Analysis) -> str:
    """What served the requests, and whether the prompts are synthetic: it stands on every figure."""
    return " · ".join(kinds(analysis.sweep))


def foot(
    figure: Figure,
    analysis: Analysis,
    population: str,
    *,
    results: Sequence[PointResult],
    intervals: str = "",
    over: str = "prompts",
    labels: bool = False,
) -> None:
    """Population, number of requests of the points drawn, what the intervals are, and the stamp."""
    scheduled = sorted({result.point.metrics.counts.scheduled for result in results})
    n = f"{scheduled[0]:,}" if len(scheduled) == 1 else f"{scheduled[0]:,} to {scheduled[-1]:,}"
    text = f"{population} n = {n} scheduled requests a policy and rate."
    if intervals:
        text += f" {intervals}: {100 * LEVEL:.0f} % bootstrap intervals over {over}."
    write_foot(figure, text, stamp(analysis), LABEL_KEY if labels else "")


def write_foot(figure: Figure, text: str, marked: str, key: str = "") -> None:
    """Text below the axes, ``key`` on a line of its own, and above them what the figure is marked as."""
    lines = textwrap.wrap(text, _FOOT_CHARACTERS) + ([key] if key else [])
    figure.text(0.01, 0.012, "\n".join(lines), fontsize=7, color=FAINT, va="bottom", linespacing=1.35)
    if marked:
        figure.text(0.01, 0.99, marked, fontsize=8, color="#d55e00", weight="bold", va="top")


def log_where_wide(axes: Axes, which: Literal["x", "y"], values: list[float]) -> None:
    """A log axis where values, all above zero, spread over more than a factor of 15; ticks as plain numbers.

    What costs nothing has no place on a log axis: with it the axis stays linear, and shows it. Called before
    anything is drawn; the ticks stand at 1, 2 and 5 of each decade, or at 1 alone where decades are many.
    """
    known = np.array([value for value in values if np.isfinite(value)])
    if len(known) < 2 or known.min() <= 0 or known.max() / known.min() <= 15:
        return
    if which == "x":
        axes.set_xscale("log")
    else:
        axes.set_yscale("log")
    plain_log_ticks(axes.xaxis if which == "x" else axes.yaxis, known.max() / known.min())


def plain_log_ticks(axis: Axis, ratio: float) -> None:
    """Plain numbers at 1, 2 and 5 of each decade of a log axis, or at some 1s where ``ratio`` spans many."""
    axis.set_major_locator(LogLocator(subs=(1.0,) if ratio > 500 else (1.0, 2.0, 5.0), numticks=7))
    axis.set_major_formatter("{x:g}")
    axis.set_minor_locator(NullLocator())
