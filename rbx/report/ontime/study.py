"""The on-time part of an analysis: every point, BEAR's comparison, and the TTFT predictions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rbx.report.interval import Interval
from rbx.report.ontime.estimator import EstimatorResult, judge_estimator
from rbx.report.ontime.gains import Comparison, Entry, compare
from rbx.report.ontime.metrics import OnTimeMetrics, measure_on_time
from rbx.report.ontime.over_prompts import intervals_over_prompts
from rbx.report.ontime.role import Role, role_of
from rbx.report.ontime.rule import OnTimeRule
from rbx.report.ontime.series import METRICS
from rbx.report.ontime.timed import TimedPoints
from rbx.report.paired import Resampling
from rbx.report.point import Point


@dataclass(frozen=True)
class OnTimeResult:
    """One policy at one rate; intervals of ``METRICS`` over blocks of time, and over prompts."""

    point: Point
    role: Role
    metrics: OnTimeMetrics
    over_time: dict[str, Interval]
    over_prompts: dict[str, Interval]


@dataclass(frozen=True)
class OnTimeStudy:
    """``results`` stand in the order of the points: rates ascend, policies as in the manifest.

    ``comparison`` is None without BEAR or without anything to compare it with; ``block_lengths`` are
    the lengths, in requests, of the blocks that were drawn. ``estimators`` stand policy by policy.
    """

    rule: OnTimeRule
    results: tuple[OnTimeResult, ...]
    comparison: Comparison | None
    estimators: tuple[EstimatorResult, ...]
    block_lengths: tuple[int, ...]

    @property
    def rates_per_s(self) -> tuple[float, ...]:
        """Rates, ascending."""
        return tuple(sorted({result.point.rate_per_s for result in self.results}))

    def at(self, rate_per_s: float) -> list[OnTimeResult]:
        """The results of one rate, highest OnTimeUtility first."""
        mine = [result for result in self.results if result.point.rate_per_s == rate_per_s]
        value = {id(result): result.metrics.on_time_utility for result in mine}
        return sorted(mine, key=lambda r: -np.nan_to_num(value[id(r)], nan=-np.inf))

    def rivals_at(self, rate_per_s: float) -> list[OnTimeResult]:
        """The same without references, which lead nobody; all where there are no others."""
        results = self.at(rate_per_s)
        return [result for result in results if result.role.kind != "reference"] or results

    def by_label(self) -> dict[str, list[OnTimeResult]]:
        """The results of each policy over the rates, BEAR first, then by their best mean OnTimeUtility."""
        groups: dict[str, list[OnTimeResult]] = {}
        for result in self.results:
            groups.setdefault(result.point.label, []).append(result)

        def order(mine: list[OnTimeResult]) -> tuple[bool, float]:
            values = np.nan_to_num([each.metrics.on_time_utility for each in mine], nan=-np.inf)
            return (mine[0].role.kind != "bear", -float(np.mean(values)))

        return {mine[0].point.label: mine for mine in sorted(groups.values(), key=order)}


def study_on_time(points: Sequence[Point], rule: OnTimeRule, resampling: Resampling) -> OnTimeStudy:
    """Measure, compare and judge; ``points`` are all of a sweep with TTFT targets."""
    timed = TimedPoints(points, rule, resampling)
    over_prompts = intervals_over_prompts(points, rule, resampling)
    entries = [Entry(point, role_of(point.policy, point.label)) for point in points]
    results = tuple(
        OnTimeResult(
            point=entry.point,
            role=entry.role,
            metrics=measure_on_time(entry.point.cells, rule),
            over_time={metric: timed.mean(entry.point, metric) for metric in METRICS},
            over_prompts=over_prompts[id(entry.point)],
        )
        for entry in entries
    )
    return OnTimeStudy(
        rule=rule,
        results=results,
        comparison=compare(entries, timed),
        estimators=_estimators(entries),
        block_lengths=timed.block_lengths,
    )


def _estimators(entries: Sequence[Entry]) -> tuple[EstimatorResult, ...]:
    """Policies that predict TTFT, BEAR first and each over the rates; the rest as in the manifest."""
    first: dict[str, int] = {}
    for entry in entries:
        first.setdefault(entry.point.label, 0 if entry.role.kind == "bear" else len(first) + 1)
    ordered = sorted(entries, key=lambda e: (first[e.point.label], e.point.rate_per_s))
    return tuple(found for entry in ordered if (found := judge_estimator(entry.point)) is not None)
