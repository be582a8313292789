"""All on-time figures of one rate, one row a policy."""

from __future__ import annotations

from rbx.report.mix_words import common_start, mix_words
from rbx.report.number import UNKNOWN, percent, score, significant, usd_per_thousand
from rbx.report.ontime.study import OnTimeResult, OnTimeStudy
from rbx.report.table import Column, Table, Value, count, estimate, number


def on_time_table(study: OnTimeStudy, rate_per_s: float) -> Table:
    """Best OnTimeUtility first."""
    columns = (
        Column("policy", numeric=False),
        Column("part", numeric=False, is_optional=True),
        Column("OnTimeUtility", "mean of U if in time, else 0"),
        Column("in time", "of all scheduled requests"),
        Column("goodput, req/s", "completed in time before the last arrival ÷ arrival window"),
        Column("U ungated", "mean of quality − w·cost over all scheduled, were every completed one in time"),
        Column("$ / 1,000", "USD per 1,000 scheduled requests"),
        Column("none in time", "decisions that predicted no instance to meet the target ÷ decisions"),
        Column("shed", "turned away ÷ scheduled"),
        Column("alarms", "times that the share of such decisions jumped, all seeds"),
        Column("counted", "scheduled requests that count in OnTimeUtility: not in time without a score"),
        Column("model mix", "share of scheduled requests", numeric=False),
    )
    results = study.at(rate_per_s)
    start = common_start(result.metrics.model_share for result in results)
    rows = tuple(_row(result, start) for result in results)
    note = "Over all scheduled requests, all seeds. Intervals over blocks of time."
    return Table("On time", note, columns, rows)


def _row(result: OnTimeResult, start: str) -> tuple[Value, ...]:
    m, over = result.metrics, result.over_time
    return (
        Value(result.point.label, mark=result.point.family),
        Value(result.role.words, tone="mute"),
        estimate(over["on_time_utility"], score),
        estimate(over["attainment"], lambda share: percent(share, 1)),
        number(m.goodput_per_s, significant),
        estimate(over["ungated_utility"], score),
        number(m.cost_per_request_usd, usd_per_thousand),
        number(m.infeasible_share, lambda share: percent(share, 1)),
        number(m.shed_share, lambda share: percent(share, 1)),
        count(m.alarms, alarming=True),
        Value(percent(m.coverage, 1), sort=m.coverage, tone="bad" if m.coverage < 1 else ""),
        Value(mix_words(m.model_share, start) or UNKNOWN),
    )
