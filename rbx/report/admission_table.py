"""What filters did: how many candidates they left to the policies of a rate, and by which rule."""

from __future__ import annotations

import numpy as np

from rbx.policy.filters.admissions import ADMISSIONS, STRICT
from rbx.report.analysis import PointResult, RateResult
from rbx.report.number import percent, significant
from rbx.report.rate_tables import policy
from rbx.report.table import Column, Table, Value, number

_STRICT = ADMISSIONS[STRICT]
_EMPTY = ("all", "cheapest", "shed")


def admission_table(rate: RateResult) -> Table | None:
    """One row for each policy behind a filter; None where there is none."""
    columns = (
        Column("policy", numeric=False),
        Column("n", "requests that came before the filter, all seeds"),
        Column("candidates", "mean number of instances that the filter left"),
        Column("passed", "share for which somebody passed the rule as it stands"),
        Column("relaxed", "share for which somebody passed after θ was lowered"),
        Column("else: all", "share for which nobody passed and the policy chose among all candidates"),
        Column("else: cheapest", "share for which nobody passed and the cheapest candidates were left"),
        Column("else: shed", "share turned away, since nobody passed"),
    )
    rows = tuple(row for result in rate.results if (row := _row(result, rate.baseline)) is not None)
    if not rows:
        return None
    return Table("Filters", "Over requests that a filter saw, all seeds.", columns, rows)


def _row(result: PointResult, baseline: PointResult | None) -> tuple[Value, ...] | None:
    runs = [cell.requests for cell in result.point.cells]
    admission = np.concatenate([run.admission for run in runs])
    left = np.concatenate([run.admitted_candidates for run in runs])
    seen = admission != ""
    n = int(seen.sum())
    if not n:
        return None

    def share(words: tuple[str, ...]) -> Value:
        return number(float(np.isin(admission[seen], words).mean()), percent)

    relaxed = tuple(word for word in ADMISSIONS if word != _STRICT and word not in _EMPTY)
    return (
        policy(result, baseline),
        Value(f"{n:,}", sort=float(n)),
        number(float(np.nanmean(left[seen])), significant),
        share((_STRICT,)),
        share(relaxed),
        *(share((word,)) for word in _EMPTY),
    )
