"""The few policies of the highest OnTimeUtility at each rate, for a terminal."""

from __future__ import annotations

from rbx.report.number import UNKNOWN, percent, score
from rbx.report.ontime.study import OnTimeResult, OnTimeStudy
from rbx.report.ontime.words import gain_words
from rbx.report.table import Column, Table, Value
from rbx.report.telling_columns import telling

_PLACES = 3


def leaders_table(study: OnTimeStudy) -> Table:
    """The best three at each rate, and BEAR's gain over the best baseline."""
    columns = (
        Column("λ, req/s"),
        *(Column(f"{place + 1}.", numeric=False) for place in range(_PLACES)),
        Column("BEAR over the best baseline", numeric=False),
    )
    comparison = study.comparison
    gains = {} if comparison is None else {each.rate_per_s: each for each in comparison.best}
    rows = []
    for rate in study.rates_per_s:
        best = study.rivals_at(rate)[:_PLACES]
        found = gains.get(rate)
        rows.append(
            (
                Value(f"{rate:g}"),
                *(_placed(result) for result in best),
                *[Value(UNKNOWN, tone="mute")] * (_PLACES - len(best)),
                Value(
                    UNKNOWN if found is None else gain_words(found.ratio), sub=found.label if found else ""
                ),
            )
        )
    note = "OnTimeUtility, and the share in time, over all scheduled requests."
    return telling(Table("On time", note, columns, tuple(rows)))


def _placed(result: OnTimeResult) -> Value:
    m = result.metrics
    return Value(result.point.label, sub=f"{score(m.on_time_utility)}, {percent(m.attainment, 1)}")
