"""Everything the page, the summary and the figures are drawn from, computed once."""

from __future__ import annotations

from dataclasses import dataclass

from rbx.report.baseline import Baseline, choose_baseline
from rbx.report.dominance import Duel, duels
from rbx.report.frontier import non_dominated, upper_hull
from rbx.report.interval import Interval
from rbx.report.load import Sweep
from rbx.report.looks import Look, looks_of
from rbx.report.ontime.study import OnTimeStudy, study_on_time
from rbx.report.paired import MEANS, QUANTILES, TAIL_METRICS, PairedPoints, Resampling, pair_up
from rbx.report.plane import PLANES, Plane, coordinates
from rbx.report.point import Point, to_points
from rbx.report.reference import BlindMix, References, blind_mix, references

TailKey = tuple[str, float]


@dataclass(frozen=True)
class Against:
    """Paired differences of a point against the baseline of its rate (point − baseline)."""

    means: dict[str, Interval]
    tails: dict[TailKey, Interval]


@dataclass(frozen=True)
class PointResult:
    """A point with its intervals; ``against`` is None for the baseline itself, or where there is none."""

    point: Point
    means: dict[str, Interval]
    tails: dict[TailKey, Interval]
    against: Against | None
    mix: BlindMix


@dataclass(frozen=True)
class Frontier:
    """Labels of the points that no other dominates, and of those on the upper hull, in one plane."""

    plane: Plane
    non_dominated: tuple[str, ...]
    hull: tuple[str, ...]


@dataclass(frozen=True)
class Winner:
    """The best point at one rate: on ``plane``'s axis among those of at least the baseline's quality,
    or in quality where ``plane`` is None. In latency and throughput a point that does not keep up with
    its arrivals stands back while another does. Both differences are None where it is the baseline itself;
    ``saving`` is positive where the point is better.
    """

    plane: Plane | None
    result: PointResult
    quality_gain: Interval | None
    saving: Interval | None


@dataclass(frozen=True)
class RateResult:
    """All points at one arrival rate; ``baseline`` is None where its cell is invalid or was not run."""

    rate_per_s: float
    load: float | None
    results: tuple[PointResult, ...]
    baseline: PointResult | None
    references: References
    frontiers: tuple[Frontier, ...]
    duels: tuple[Duel, ...]
    winners: tuple[Winner, ...]


@dataclass(frozen=True)
class Analysis:
    """A sweep, analysed; ``rates`` ascend. ``on_time`` is None where no request has a TTFT target."""

    sweep: Sweep
    baseline: Baseline
    resampling: Resampling
    rates: tuple[RateResult, ...]
    on_time: OnTimeStudy | None

    @property
    def baseline_label(self) -> str:
        """The policy that differences are taken against."""
        return self.baseline.label

    @property
    def results(self) -> tuple[PointResult, ...]:
        """Points of all rates."""
        return tuple(result for rate in self.rates for result in rate.results)

    @property
    def looks(self) -> dict[str, Look]:
        """Colour, marker and dash of each family of the sweep."""
        return looks_of(result.point.family for result in self.results)

    @property
    def middle(self) -> RateResult:
        """The rate that figures of a single rate show: the middle one."""
        return self.rates[len(self.rates) // 2]


def analyse(sweep: Sweep, *, baseline: str | None, resampling: Resampling) -> Analysis:
    """Estimate, compare and rank; raises ``UsageError`` for an unknown baseline label."""
    points = to_points(sweep.cells)
    chosen = choose_baseline(points, baseline)
    rates = [
        _rate(paired, rate_per_s, chosen.label)
        for paired in pair_up(points, sweep.labels, resampling)
        for rate_per_s in paired.rates
    ]
    return Analysis(
        sweep,
        chosen,
        resampling,
        tuple(sorted(rates, key=lambda rate: rate.rate_per_s)),
        None if sweep.on_time is None else study_on_time(points, sweep.on_time, resampling),
    )


def _rate(paired: PairedPoints, rate_per_s: float, label: str) -> RateResult:
    points = [point for point in paired.points if point.rate_per_s == rate_per_s]
    base = next((point for point in points if point.label == label), None)
    results = tuple(_result(paired, point, base) for point in points)
    by_label = {result.point.label: result for result in results}
    rivals = [point for point in points if not point.is_reference]
    return RateResult(
        rate_per_s=rate_per_s,
        load=points[0].load,
        results=results,
        baseline=by_label.get(label),
        references=references(paired, rate_per_s),
        frontiers=tuple(_frontier(rivals, plane) for plane in PLANES),
        duels=tuple(duels(paired, rivals, PLANES)),
        winners=tuple(_winners(paired, by_label, base)) if base is not None else (),
    )


def _result(paired: PairedPoints, point: Point, base: Point | None) -> PointResult:
    tails = [(metric, quantile) for metric in TAIL_METRICS for quantile in QUANTILES]
    against = None
    if base is not None and base is not point:
        against = Against(
            {metric: paired.difference(point, base, metric) for metric in MEANS},
            {key: paired.tail_difference(point, base, *key) for key in tails},
        )
    return PointResult(
        point=point,
        means={metric: paired.mean(point, metric) for metric in MEANS},
        tails={key: paired.tail(point, *key) for key in tails},
        against=against,
        mix=blind_mix(paired, point),
    )


def _frontier(points: list[Point], plane: Plane) -> Frontier:
    gain, quality = coordinates(points, plane)
    keep = non_dominated(gain, quality)
    return Frontier(
        plane,
        tuple(point.label for point, kept in zip(points, keep, strict=True) if kept),
        tuple(points[index].label for index in upper_hull(gain, quality)),
    )


def _winners(paired: PairedPoints, by_label: dict[str, PointResult], base: Point) -> list[Winner]:
    def winner(plane: Plane | None, point: Point) -> Winner:
        result = by_label[point.label]
        if point is base:
            return Winner(plane, result, None, None)
        saving = None if plane is None else plane.saving(paired, point, base)
        return Winner(plane, result, paired.difference(point, base, "quality"), saving)

    points = [result.point for result in by_label.values() if not result.point.is_reference]
    scored = [point for point in points if point.metrics.quality_mean == point.metrics.quality_mean]
    if not scored:
        return []
    found = [winner(None, max(scored, key=lambda point: point.metrics.quality_mean))]
    for plane in PLANES:
        fair = [
            point
            for point in scored
            if point.metrics.quality_mean >= base.metrics.quality_mean
            and plane.gain(point) == plane.gain(point)
        ]
        if plane.depends_on_length:
            fair = [point for point in fair if not point.is_overloaded] or fair
        if fair:
            found.append(winner(plane, max(fair, key=plane.gain)))
    return found
