"""BEAR against every other policy but references: at each rate, on average, and by the area under the curve.

The paper's summary names two averages without saying how they are taken; here they are

    over latency-aware routers   mean over (router, rate) of BEAR ÷ router − 1
    over the best baseline       mean over rates of BEAR ÷ max over baselines − 1

of OnTimeUtility, whose intervals come from shared resamples of time. A router that is there in several
settings stands by the one of the highest mean over the rates it shares with BEAR.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rbx.report.bootstrap import LEVEL
from rbx.report.interval import Interval, not_estimable
from rbx.report.ontime.role import Role
from rbx.report.ontime.timed import TimedPoints
from rbx.report.paired import why_unpaired
from rbx.report.point import Point
from rbx.report.requests import Floats

_METRIC = "on_time_utility"
NOT_POSITIVE = "OnTimeUtility of what BEAR is compared with is not above zero"


@dataclass(frozen=True)
class Entry:
    """A policy at one rate, and its part in the comparison."""

    point: Point
    role: Role


@dataclass(frozen=True)
class Rivalry:
    """BEAR and one other policy at one rate: BEAR ÷ other − 1, and BEAR − other in each metric."""

    rate_per_s: float
    label: str
    family: str
    role: Role
    ratio: Interval
    utility: Interval
    attainment: Interval

    @property
    def is_lost(self) -> bool:
        """Whether the interval of the difference in OnTimeUtility lies below zero."""
        return self.utility.is_below_zero


@dataclass(frozen=True)
class Average:
    """A mean of ratios over ``terms`` (label, rate); ``left_out`` could not be divided by, or not paired."""

    gain: Interval
    median: float
    terms: tuple[tuple[str, float], ...]
    left_out: tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class AreaGain:
    """Areas under OnTimeUtility over ``rates_per_s`` (trapezoids), and BEAR's ÷ the other's − 1."""

    label: str
    family: str
    role: Role
    rates_per_s: tuple[float, ...]
    bear: float
    other: float
    gain: Interval


@dataclass(frozen=True)
class Comparison:
    """``best`` holds the best baseline of each rate, ``settings`` the one that stands for each router."""

    rivalries: tuple[Rivalry, ...]
    settings: dict[str, str]
    best: tuple[Rivalry, ...]
    over_latency_aware: Average
    over_best: Average
    areas: tuple[AreaGain, ...]

    @property
    def lost(self) -> tuple[Rivalry, ...]:
        """Every (policy, rate) that beats BEAR for sure."""
        return tuple(each for each in self.rivalries if each.is_lost)

    @property
    def behind(self) -> tuple[Rivalry, ...]:
        """Policies and rates at which BEAR has the lower estimate, but not surely."""
        return tuple(each for each in self.rivalries if each.utility.value < 0 and not each.is_lost)

    @property
    def area_over_best(self) -> AreaGain | None:
        """Against the baseline of the largest area, among those that were run at as many rates as any."""
        found = [area for area in self.areas if area.role.kind == "baseline"]
        most = max((len(area.rates_per_s) for area in found), default=0)
        return max((a for a in found if len(a.rates_per_s) == most), key=lambda a: a.other, default=None)


def compare(entries: Sequence[Entry], timed: TimedPoints) -> Comparison | None:
    """BEAR against every policy but references; None where BEAR, or what to compare it with, is absent."""
    bear = {entry.point.rate_per_s: entry.point for entry in entries if entry.role.kind == "bear"}
    others = [
        entry
        for entry in entries
        if entry.role.kind not in ("bear", "reference") and entry.point.rate_per_s in bear
    ]
    if not others:
        return None
    pairs = [(bear[entry.point.rate_per_s], entry) for entry in others]
    rivalries = tuple(_rivalry(mine, entry, timed) for mine, entry in pairs)
    settings = _settings(others, timed)
    aware = [
        pair
        for pair in pairs
        if pair[1].role.latency_aware and settings[pair[1].role.router] == pair[1].point.label
    ]
    best = [_best_at(rate, pairs, timed) for rate in sorted(bear)]
    found = [pair for pair in best if pair is not None]
    return Comparison(
        rivalries=rivalries,
        settings=settings,
        best=tuple(_rivalry(mine, entry, timed) for mine, entry in found),
        over_latency_aware=_average(aware, timed),
        over_best=_average(found, timed),
        areas=tuple(area for area in (_area(bear, mine, timed) for mine in _by_label(others)) if area),
    )


def _rivalry(bear: Point, entry: Entry, timed: TimedPoints) -> Rivalry:
    other = entry.point
    return Rivalry(
        rate_per_s=other.rate_per_s,
        label=other.label,
        family=other.family,
        role=entry.role,
        ratio=_ratio_interval(bear, other, timed),
        utility=timed.difference(bear, other, _METRIC),
        attainment=timed.difference(bear, other, "attainment"),
    )


def _ratio_interval(bear: Point, other: Point, timed: TimedPoints) -> Interval:
    value = _gain(timed.value(bear, _METRIC), timed.value(other, _METRIC))
    if unpaired := why_unpaired(bear, other):
        return not_estimable(value, unpaired)
    replicates = _gains(timed.replicates(bear, _METRIC), timed.replicates(other, _METRIC))
    return _judged(value, replicates, timed, [bear, other])


def _judged(value: float, replicates: Floats, timed: TimedPoints, points: Sequence[Point]) -> Interval:
    """A gain with its interval, whose upper end is infinite where too many resamples have no ratio.

    A resample whose divisor is not above zero counts as a gain beyond any bound.
    """
    if np.isnan(value):
        return not_estimable(value, NOT_POSITIVE)
    if np.isfinite(replicates).all():
        return timed.interval(value, replicates, points, scale=1.0)
    ordered = np.sort(np.where(np.isfinite(replicates), replicates, np.inf))
    out = (1 - LEVEL) / 2 * (len(ordered) - 1)
    low, high = ordered[math.floor(out)], ordered[math.ceil(len(ordered) - 1 - out)]
    reason = f"in {(~np.isfinite(replicates)).mean():.1%} of resamples {NOT_POSITIVE}"
    if not np.isfinite(low):
        return not_estimable(value, reason)
    return Interval(value, float(low), float(high), "ok", reason)


def _gain(mine: float, other: float) -> float:
    return float(_gains(np.array([mine]), np.array([other]))[0])


def _gains(mine: Floats, other: Floats) -> Floats:
    """``mine`` ÷ ``other`` − 1; NaN where ``other`` is not above zero, where a ratio says nothing."""
    known = other > 0
    return np.where(known, mine / np.where(known, other, 1.0) - 1.0, np.nan)


def _settings(others: Sequence[Entry], timed: TimedPoints) -> dict[str, str]:
    """Label of each router's best setting: most rates first, then the highest mean OnTimeUtility."""
    found: dict[str, tuple[int, float, str]] = {}
    for mine in _by_label(others):
        values = np.nan_to_num([timed.value(entry.point, _METRIC) for entry in mine], nan=-np.inf)
        key = (len(mine), float(np.mean(values)), mine[0].point.label)
        router = mine[0].role.router
        found[router] = max(found.get(router, key), key)
    return {router: label for router, (_, _, label) in found.items()}


def _by_label(entries: Sequence[Entry]) -> list[list[Entry]]:
    groups: dict[str, list[Entry]] = {}
    for entry in entries:
        groups.setdefault(entry.point.label, []).append(entry)
    return list(groups.values())


def _best_at(
    rate_per_s: float, pairs: Sequence[tuple[Point, Entry]], timed: TimedPoints
) -> tuple[Point, Entry] | None:
    """The baseline of the highest OnTimeUtility at a rate."""
    found = [
        pair
        for pair in pairs
        if pair[0].rate_per_s == rate_per_s
        and pair[1].role.kind == "baseline"
        and not np.isnan(timed.value(pair[1].point, _METRIC))
    ]
    return max(found, key=lambda pair: timed.value(pair[1].point, _METRIC), default=None)


def _average(pairs: Sequence[tuple[Point, Entry]], timed: TimedPoints) -> Average:
    terms, left_out, values, replicates = [], [], [], []
    for bear, entry in pairs:
        other = entry.point
        value = _gain(timed.value(bear, _METRIC), timed.value(other, _METRIC))
        if np.isnan(value) or why_unpaired(bear, other):
            left_out.append((other.label, other.rate_per_s))
            continue
        terms.append((other.label, other.rate_per_s))
        values.append(value)
        replicates.append(_gains(timed.replicates(bear, _METRIC), timed.replicates(other, _METRIC)))
    if not terms:
        gone = not_estimable(float("nan"), "nothing to average")
        return Average(gone, float("nan"), (), tuple(left_out))
    points = [point for bear, entry in pairs for point in (bear, entry.point)]
    gain = _judged(float(np.mean(values)), np.mean(replicates, axis=0), timed, points)
    return Average(gain, float(np.median(values)), tuple(terms), tuple(left_out))


def _area(bear: dict[float, Point], mine: Sequence[Entry], timed: TimedPoints) -> AreaGain | None:
    """None with fewer than two common rates that are paired."""
    common = sorted(
        (entry.point for entry in mine if not why_unpaired(bear[entry.point.rate_per_s], entry.point)),
        key=lambda point: point.rate_per_s,
    )
    if len(common) < 2:
        return None
    rates = np.array([point.rate_per_s for point in common])
    ours = [bear[point.rate_per_s] for point in common]

    def area(points: Sequence[Point]) -> tuple[float, Floats]:
        value = np.trapezoid([timed.value(point, _METRIC) for point in points], rates)
        each = np.stack([timed.replicates(point, _METRIC) for point in points])
        return float(value), np.asarray(np.trapezoid(each, rates, axis=0))

    (own, own_replicates), (other, other_replicates) = area(ours), area(common)
    replicates = _gains(own_replicates, other_replicates)
    first = mine[0]
    return AreaGain(
        label=first.point.label,
        family=first.point.family,
        role=first.role,
        rates_per_s=tuple(map(float, rates)),
        bear=own,
        other=other,
        gain=_judged(_gain(own, other), replicates, timed, [*ours, *common]),
    )
