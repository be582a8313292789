"""What a metric is at a point, and on each resample of the prompts that the point was asked."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from rbx.report.bootstrap import RatioColumns, TailColumn, replicate
from rbx.report.measured.metric import Metric, Quantile, Whole
from rbx.report.measured.site import SitePoint
from rbx.report.paired import Resampling
from rbx.report.ratio import Ratio, completed, joined
from rbx.report.requests import Floats


@dataclass(frozen=True)
class Sample:
    """``replicates`` (B,) are None where nothing is resampled, for the ``reason`` given.

    ``n_prompts`` counts the prompts with something to average.
    """

    value: float
    replicates: Floats | None
    n_prompts: int = 0
    reason: str = ""


class Asked(NamedTuple):
    """A metric of a point. Samples of one ``stream`` over the same prompts share their draws."""

    point: SitePoint
    metric: Metric
    stream: int

    @property
    def key(self) -> tuple[Hashable, str, int]:
        """What tells it from others: asked for twice, it is drawn once."""
        return self.point.key, self.metric.name, self.stream


Samples = dict[tuple[Hashable, str, int], Sample]
WHOLE_RUN = "a figure of the run as a whole, which resampled prompts do not give"


def streams(points: Sequence[SitePoint]) -> list[int]:
    """One stream of draws for points that faced the same requests, another one for each that did not."""
    seen: dict[bytes, int] = {}
    return [seen.setdefault(point.asked, len(seen)) for point in points]


def value_of(point: SitePoint, metric: Metric) -> float:
    """The metric itself; NaN where there is nothing to measure."""
    part = metric.part
    if isinstance(part, Whole):
        return part.take(point.point.metrics)
    if isinstance(part, Quantile):
        values = _counted(point, part)
        return float(np.quantile(values, part.level)) if len(values) else float("nan")
    return _value(part(point))


def draw(asked: Iterable[Asked], resampling: Resampling) -> Samples:
    """Samples of everything asked for, whatever its order; each set of prompts is resampled once a stream."""
    unique = {each.key: each for each in asked}
    found: Samples = {}
    groups: dict[tuple[bytes, int, float], list[Asked]] = {}
    for each in unique.values():
        part = each.metric.part
        if isinstance(part, Whole):
            found[each.key] = Sample(value_of(each.point, each.metric), None, reason=WHOLE_RUN)
            continue
        level = part.level if isinstance(part, Quantile) else 0.0
        groups.setdefault((each.point.universe.tobytes(), each.stream, level), []).append(each)
    for (_, stream, level), members in groups.items():
        draws = replace(resampling, seed=resampling.seed + stream)
        found |= _quantiles(members, level, draws) if level else _ratios(members, draws)
    return found


def _ratios(members: list[Asked], draws: Resampling) -> Samples:
    universe = members[0].point.universe
    columns = []
    for each in members:
        part = each.metric.part
        assert not isinstance(part, (Quantile, Whole))
        at = np.searchsorted(universe, each.point.prompts)
        columns.append(part(each.point).per_prompt(at, len(universe)))
    tops, bottoms = zip(*columns, strict=True)
    ratios = RatioColumns(np.column_stack(tops), np.column_stack(bottoms))
    means = replicate(ratios, [], (), n_resamples=draws.n_resamples, seed=draws.seed, run=draws.run).means
    values, n_prompts = ratios.values(), ratios.prompts()
    return {
        each.key: Sample(float(values[row]), means[row], int(n_prompts[row]))
        for row, each in enumerate(members)
    }


def _quantiles(members: list[Asked], level: float, draws: Resampling) -> Samples:
    universe = members[0].point.universe
    tails = []
    for each in members:
        part = each.metric.part
        assert isinstance(part, Quantile)
        values = np.where(completed(each.point.runs), joined(each.point.runs, part.column), np.nan)
        tails.append(TailColumn.of(values, np.searchsorted(universe, each.point.prompts)))
    nothing = RatioColumns(np.zeros((len(universe), 0)), np.zeros((len(universe), 0)))
    found = replicate(
        nothing, tails, (level,), n_resamples=draws.n_resamples, seed=draws.seed, run=draws.run
    ).tails
    return {
        each.key: Sample(value_of(each.point, each.metric), found[row, 0], len(np.unique(tails[row].prompts)))
        for row, each in enumerate(members)
    }


def _counted(point: SitePoint, part: Quantile) -> Floats:
    values = joined(point.runs, part.column)[completed(point.runs)]
    return np.asarray(values[np.isfinite(values)])


def _value(ratio: Ratio) -> float:
    bottom = float(ratio.bottom.sum())
    return float(ratio.top.sum()) / bottom if bottom else float("nan")
