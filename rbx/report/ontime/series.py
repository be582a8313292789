"""What each request of a point adds to the on-time means."""

from __future__ import annotations

import numpy as np

from rbx.report.ontime.rule import OnTimeRule
from rbx.report.point import Point
from rbx.report.requests import Floats

METRICS = ("on_time_utility", "attainment", "ungated_utility")


def series_of(point: Point, rule: OnTimeRule) -> Floats:
    """Columns ``METRICS`` of each request, seeds one after the other, shape (N, 3); NaN: does not count."""
    runs = [cell.requests for cell in point.cells]
    columns = (
        np.concatenate([rule.on_time_utility(run) for run in runs]),
        np.concatenate([run.on_time.astype(np.float64) for run in runs]),
        np.concatenate([rule.ungated_utility(run) for run in runs]),
    )
    return np.column_stack(columns)
