"""Statistics of one or two samples with their intervals."""

from __future__ import annotations

import numpy as np

from rbx.report.interval import Interval, not_estimable
from rbx.report.measured.sample import Sample
from rbx.report.paired import from_replicates
from rbx.report.requests import Floats


def single(sample: Sample) -> Interval:
    """A metric of one point."""
    if sample.replicates is None:
        return not_estimable(sample.value, sample.reason)
    return from_replicates(sample.value, sample.replicates, sample.n_prompts)


def difference(one: Sample, other: Sample) -> Interval:
    """``one`` − ``other``, resample by resample."""
    value = one.value - other.value
    if one.replicates is None or other.replicates is None:
        return not_estimable(value, one.reason or other.reason)
    gap = one.replicates - other.replicates
    return from_replicates(value, gap, min(one.n_prompts, other.n_prompts), scale=abs(other.value))


def ratio(one: Sample, other: Sample) -> Interval:
    """``one`` ÷ ``other``, resample by resample; unknown where the divisor is zero."""
    value = float(_divide(np.array([one.value]), np.array([other.value]))[0])
    if one.replicates is None or other.replicates is None:
        return not_estimable(value, one.reason or other.reason)
    quotient = _divide(one.replicates, other.replicates)
    return from_replicates(value, quotient, min(one.n_prompts, other.n_prompts))


def _divide(top: Floats, bottom: Floats) -> Floats:
    empty = bottom == 0
    return np.where(empty, np.nan, top / np.where(empty, 1.0, bottom))
