"""What cascades did: how many models they asked before an answer was shown."""

from __future__ import annotations

import numpy as np

from rbx.heads.routers.cascade.chain import LONGEST
from rbx.report.analysis import PointResult, RateResult
from rbx.report.number import percent, significant
from rbx.report.rate_tables import policy
from rbx.report.table import Column, Table, Value, number


def cascade_table(rate: RateResult) -> Table | None:
    """One row for each cascade; None where there is none."""
    columns = (
        Column("policy", numeric=False),
        Column("n", "requests that at least one model answered, all seeds"),
        Column("models asked", "mean number of models that answered a request; each answer is paid for"),
        *(Column(f"{k} asked", f"share that {k} answered") for k in range(1, LONGEST + 1)),
    )
    rows = tuple(row for result in rate.results if (row := _row(result, rate.baseline)) is not None)
    if not rows:
        return None
    note = (
        "Cost is that of all answers. An answer that was held back to be scored is shown whole: its first "
        "token comes with its last."
    )
    return Table("Cascades", note, columns, rows)


def _row(result: PointResult, baseline: PointResult | None) -> tuple[Value, ...] | None:
    asked = np.concatenate([cell.requests.models_asked for cell in result.point.cells])
    answered = asked[asked >= 1]
    if not len(answered):
        return None
    shares = (number(float((answered == k).mean()), percent) for k in range(1, LONGEST + 1))
    n = Value(f"{len(answered):,}", sort=float(len(answered)))
    return (policy(result, baseline), n, number(float(answered.mean()), significant), *shares)
