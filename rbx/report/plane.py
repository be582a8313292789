"""The planes that policies are compared in: quality against latency, throughput and cost."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rbx.report.interval import Interval
from rbx.report.paired import PairedPoints
from rbx.report.point import Point
from rbx.report.requests import Floats


@dataclass(frozen=True)
class Plane:
    """Quality on one axis, ``axis`` on the other; ``metric`` is its name in ``PairedPoints.mean``."""

    name: str
    title: str
    axis: str
    unit: str
    metric: str
    lower_is_better: bool

    @property
    def depends_on_length(self) -> bool:
        """Whether a longer run gives other figures to a policy that does not keep up with its arrivals."""
        return self.name != "cost"

    def value(self, point: Point) -> float:
        """The coordinate, in ``unit``s as the metrics hold them (seconds, USD, 1/s)."""
        metrics = point.metrics
        if self.name == "latency":
            return metrics.e2e_s.mean
        return metrics.cost_per_request_usd if self.name == "cost" else metrics.throughput_window_per_s

    def gain(self, point: Point) -> float:
        """The coordinate turned so that higher is better."""
        return -self.value(point) if self.lower_is_better else self.value(point)

    def saving(self, paired: PairedPoints, point: Point, baseline: Point) -> Interval:
        """How much better ``point`` is on the axis; negative where it is worse."""
        found = paired.difference(point, baseline, self.metric)
        return _negated(found) if self.lower_is_better else found


PLANES = (
    Plane("latency", "Quality and latency", "mean E2E", "s", "e2e_s", True),
    Plane("throughput", "Quality and throughput", "throughput", "req/s", "throughput_per_s", False),
    Plane("cost", "Quality and cost", "cost per request", "USD", "cost_usd", True),
)


def coordinates(points: list[Point], plane: Plane) -> tuple[Floats, Floats]:
    """(gain, quality) of each point, both higher is better; NaN where unknown."""
    gain = np.array([plane.gain(point) for point in points], dtype=np.float64)
    quality = np.array([point.metrics.quality_mean for point in points], dtype=np.float64)
    return gain, quality


def _negated(interval: Interval) -> Interval:
    return Interval(-interval.value, -interval.high, -interval.low, interval.status, interval.reason)
