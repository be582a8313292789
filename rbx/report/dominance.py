"""Does some RouteBalance cell beat a baseline cell in a plane, by how much, and how surely?

The cell is chosen among all RouteBalance cells of the rate on the very data it is then judged by,
so that its lead is slightly optimistic; the page says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from rbx.report.interval import Interval
from rbx.report.paired import PairedPoints
from rbx.report.plane import Plane
from rbx.report.point import Point

# A lead in latency, throughput or cost is called sure only if quality is not worse by more than this.
QUALITY_MARGIN = 0.02

Verdict = Literal["sure", "estimate", "no", "unknown"]
VERDICTS: dict[Verdict, str] = {
    "sure": "at least as good in both; the interval of the gain on the axis lies above zero, and that of the "
    f"quality difference above −{QUALITY_MARGIN:g}",
    "estimate": "at least as good in both by the estimates, but not surely",
    "no": "no cell is at least as good in both",
    "unknown": "not comparable",
}
_RANK: tuple[Verdict, ...] = ("unknown", "no", "estimate", "sure")


@dataclass(frozen=True)
class Trade:
    """A chosen cell against the baseline: quality gained, and saved (or lost, if negative) on the axis."""

    point: Point
    quality_gain: Interval
    saving: Interval

    @property
    def is_sure(self) -> bool:
        """Whether the saving's interval lies above zero, and quality is not worse by ``QUALITY_MARGIN``."""
        return self.saving.is_above_zero and self.keeps_quality

    @property
    def keeps_quality(self) -> bool:
        """Whether the interval of the quality gained lies above −``QUALITY_MARGIN``."""
        return self.quality_gain.low >= -QUALITY_MARGIN


@dataclass(frozen=True)
class Duel:
    """RouteBalance against one baseline cell in one plane at one rate.

    ``at_quality``: the cell that saves most among those of equal or better quality.
    ``at_quality_kept_up``: the same where both keep up with arrivals, as far as can be told.
    ``at_axis``: the cell of best quality among those equal or better on the axis. None: no such cell.
    """

    plane: Plane
    baseline: Point
    verdict: Verdict
    at_quality: Trade | None
    at_quality_kept_up: Trade | None
    at_axis: Trade | None

    @property
    def won(self) -> bool:
        """Whether a cell is at least as good in both and better in one, by the estimates."""
        return self.verdict in ("sure", "estimate")


def duel(paired: PairedPoints, fused: list[Point], baseline: Point, plane: Plane) -> Duel:
    """Compare every fused cell of a rate with one baseline cell of it."""
    goal_quality, goal = baseline.metrics.quality_mean, plane.gain(baseline)
    good = [point for point in fused if point.metrics.quality_mean >= goal_quality]
    quick = [point for point in fused if plane.gain(point) >= goal]
    known = [point for point in good if plane.gain(point) == plane.gain(point)]

    def trade(point: Point) -> Trade:
        return Trade(
            point, paired.difference(point, baseline, "quality"), plane.saving(paired, point, baseline)
        )

    at_quality = trade(max(known, key=plane.gain)) if known else None
    lasting = [] if baseline.is_overloaded else [point for point in known if not point.is_overloaded]
    kept_up = trade(max(lasting, key=plane.gain)) if lasting else None
    quick = [point for point in quick if point.metrics.quality_mean == point.metrics.quality_mean]
    at_axis = trade(max(quick, key=lambda point: point.metrics.quality_mean)) if quick else None
    both = [trade(point) for point in good if plane.gain(point) >= goal]
    if goal_quality != goal_quality or goal != goal or not fused:
        verdict: Verdict = "unknown"
    else:
        verdict = max((_verdict(each) for each in both), key=_RANK.index, default="no")
    return Duel(plane, baseline, verdict, at_quality, kept_up, at_axis)


def _verdict(trade: Trade) -> Verdict:
    if trade.quality_gain.value <= 0 and trade.saving.value <= 0:
        return "no"
    return "sure" if trade.is_sure else "estimate"


def duels(paired: PairedPoints, points: list[Point], planes: tuple[Plane, ...]) -> Iterator[Duel]:
    """Every plane × every policy of the rate that isn't RouteBalance, passthrough first."""
    fused = [point for point in points if point.is_fused]
    others = sorted((p for p in points if not p.is_fused), key=lambda p: p.family != "passthrough")
    for plane in planes:
        for baseline in others if fused else ():
            yield duel(paired, fused, baseline, plane)
