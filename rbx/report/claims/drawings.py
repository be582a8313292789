"""Published figures against ours: values and ratios in one figure, differences in another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from rbx.config.claims import DifferenceClaim, RatioClaim, ValueClaim
from rbx.report.bootstrap import LEVEL
from rbx.report.claims.study import ClaimsStudy, Judged
from rbx.report.claims.tally import NEAR
from rbx.report.figures.drawing import Drawing, finish
from rbx.report.figures.legend import legend_above
from rbx.report.figures.style import (
    FAINT,
    INK,
    PAPER,
    RULE,
    WIDTH_IN,
    plain_log_ticks,
    styled,
    write_foot,
)
from rbx.report.looks import HUES
from rbx.report.plain_text import printable

_BARS = f"Bars: {100 * LEVEL:.0f} % bootstrap intervals over prompts, and published ones."
_HOLLOW = "Hollow: calibrated, something was fitted to that number."
_LOOKS = {
    "quality": (HUES["blue"], "o"),
    "latency": (HUES["vermilion"], "s"),
    "cost": (HUES["green"], "^"),
    "throughput": (HUES["amber"], "D"),
    "share": (HUES["pink"], "v"),
    "count": (HUES["sky"], "P"),
    "ratio": (INK, "X"),
}
_MOST_DIFFERENCES = 60
_LINEAR_UP_TO = 3.0


def draw_claims(study: ClaimsStudy) -> Iterator[Drawing]:
    """Every figure that has something to show."""
    close = [each for each in study.judged if _is_close_kind(each)]
    gaps = [each for each in study.judged if _is_gap(each)]
    with styled():
        if close:
            yield _closeness(study, close)
        if gaps:
            yield _differences(study, gaps)


def _is_close_kind(judged: Judged) -> bool:
    """Values and ratios above zero on both sides: what a log scale can show."""
    claim, ours = judged.claim, judged.finding.ours
    if not isinstance(claim, (ValueClaim, RatioClaim)) or ours is None:
        return False
    return claim.published > 0 and np.isfinite(ours.value) and ours.value > 0


def _is_gap(judged: Judged) -> bool:
    claim, ours = judged.claim, judged.finding.ours
    if not isinstance(claim, DifferenceClaim) or ours is None:
        return False
    return claim.published != 0.0 and bool(np.isfinite(ours.value))


def _quantity(judged: Judged) -> str:
    if isinstance(judged.claim, RatioClaim):
        return "ratio"
    return "count" if judged.metric is None else judged.metric.quantity


def _closeness(study: ClaimsStudy, shown: list[Judged]) -> Drawing:
    shown = sorted(shown, key=lambda each: list(_LOOKS).index(_quantity(each)))
    figure = Figure(figsize=(WIDTH_IN, 4.6))
    left = figure.add_axes((0.085, 0.185, 0.4, 0.66))
    right = figure.add_axes((0.565, 0.185, 0.415, 0.66))
    _against_identity(left, shown)
    _ratios(right, shown)
    handles = [
        Line2D([], [], ls="", marker=_LOOKS[name][1], ms=6, color=_LOOKS[name][0], label=name)
        for name in dict.fromkeys(map(_quantity, shown))
    ]
    legend_above(figure, handles)
    near = ", ".join(f"{100 * share:.0f}" for share in NEAR)
    text = f"n = {len(shown)} values and ratios. {_BARS} {_HOLLOW} Right: within {near} % of the published."
    write_foot(figure, text, " · ".join(study.kinds))
    errors = [abs(each.finding.relative_error or 0.0) for each in shown]
    told = ", ".join(
        f"{sum(error <= share for error in errors)} within {100 * share:.0f} %" for share in NEAR
    )
    return finish(
        figure,
        name="published-ours",
        title="Published values and ours",
        alt=f"{len(shown)} published values and ratios against ours on log axes: {told}.",
    )


def _against_identity(axes: Axes, shown: Sequence[Judged]) -> None:
    every = [value for each in shown for value in (_published(each), _ours(each))]
    low, high = min(every) / 1.6, max(every) * 1.6
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.plot([low, high], [low, high], color=FAINT, lw=0.9, zorder=1)
    for each in shown:
        x, y = _published(each), _ours(each)
        _bar(axes, each, [x, x], _our_ends(each))
        if (ends := _published_ends(each)) is not None:
            _bar(axes, each, ends, [y, y])
        _mark(axes, each, x, y)
    axes.set_xlim(low, high)
    axes.set_ylim(low, high)
    for axis in (axes.xaxis, axes.yaxis):
        plain_log_ticks(axis, high / low)
    axes.set_xlabel("published, each in its own unit")
    axes.set_ylabel("ours")


def _ratios(axes: Axes, shown: Sequence[Judged]) -> None:
    for share, shade in zip(NEAR, (0.5, 0.3, 0.18), strict=True):
        axes.axvspan(1 - share, 1 + share, color=RULE, alpha=shade, lw=0, zorder=0)
    axes.axvline(1.0, color=FAINT, lw=0.9, zorder=1)
    axes.set_xscale("log")
    for row, each in enumerate(reversed(shown)):
        published = _published(each)
        _bar(axes, each, [end / published for end in _our_ends(each)], [row, row])
        _mark(axes, each, _ours(each) / published, row)
    axes.set_yticks([])
    axes.set_ylim(-1, len(shown))
    axes.grid(axis="y", visible=False)
    low, high = axes.get_xlim()
    plain_log_ticks(axes.xaxis, high / low)
    axes.set_xlabel("ours ÷ published, one row a claim")


def _differences(study: ClaimsStudy, every: list[Judged]) -> Drawing:
    shown = every[:_MOST_DIFFERENCES]
    height = 1.5 + 0.24 * len(shown)
    figure = Figure(figsize=(WIDTH_IN, height))
    axes = figure.add_axes((0.34, 0.95 / height, 0.64, 1.0 - 1.3 / height))
    axes.axvline(0.0, color=INK, lw=0.8)
    axes.axvline(1.0, color=FAINT, lw=0.9, ls=(0, (4, 3)))
    for row, each in enumerate(reversed(shown)):
        published = _published(each)
        if (ends := _published_ends(each)) is not None:
            scaled = [end / published for end in ends]
            axes.plot(scaled, [row + 0.22] * 2, color=FAINT, lw=1.2, solid_capstyle="butt")
        _bar(axes, each, [end / published for end in _our_ends(each)], [row, row])
        _mark(axes, each, _ours(each) / published, row)
    if max(map(abs, axes.get_xlim())) > _LINEAR_UP_TO * 2:
        # One small published difference must not squeeze all others into a line.
        axes.set_xscale("symlog", linthresh=_LINEAR_UP_TO)
        axes.xaxis.set_major_formatter("{x:g}")
    axes.set_yticks(range(len(shown)), [printable(each.claim.id) for each in reversed(shown)])
    axes.set_ylim(-0.8, len(shown) - 0.2)
    axes.grid(axis="y", visible=False)
    axes.set_xlabel("ours ÷ the published difference (1: as published; below 0: other direction)")
    first = f", the first {len(shown)} of them drawn" if len(every) > len(shown) else ""
    text = f"n = {len(every)} differences{first}. {_BARS} Grey: the published interval. {_HOLLOW}"
    write_foot(figure, text, " · ".join(study.kinds))
    same = sum(bool(each.finding.direction) for each in shown)
    return finish(
        figure,
        name="differences",
        title="Published differences and ours",
        alt=f"{len(shown)} differences, ours divided by the published one: {same} point the same way.",
    )


def _published(judged: Judged) -> float:
    claim = judged.claim
    assert isinstance(claim, (ValueClaim, RatioClaim, DifferenceClaim))
    return claim.published


def _published_ends(judged: Judged) -> list[float] | None:
    claim = judged.claim
    assert isinstance(claim, (ValueClaim, RatioClaim, DifferenceClaim))
    return None if claim.published_interval is None else list(claim.published_interval)


def _ours(judged: Judged) -> float:
    ours = judged.finding.ours
    assert ours is not None
    return ours.value


def _our_ends(judged: Judged) -> list[float]:
    """Ends of our interval; the value itself where there is none."""
    ours = judged.finding.ours
    assert ours is not None
    return [ours.low, ours.high] if ours.status == "ok" else [ours.value, ours.value]


def _bar(axes: Axes, judged: Judged, x: Sequence[float], y: Sequence[float]) -> None:
    axes.plot(x, y, color=_LOOKS[_quantity(judged)][0], lw=0.9, solid_capstyle="butt", zorder=2)


def _mark(axes: Axes, judged: Judged, x: float, y: float) -> None:
    hue, shape = _LOOKS[_quantity(judged)]
    face = PAPER if judged.claim.is_calibrated else hue
    edge = hue if judged.claim.is_calibrated else PAPER
    axes.plot(x, y, shape, color=hue, ms=5.5, markerfacecolor=face, markeredgecolor=edge, mew=0.8, zorder=3)
