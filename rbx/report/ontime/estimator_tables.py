"""TTFT predictions against what came: errors, errors by regime, and which side of the target."""

from __future__ import annotations

from collections.abc import Iterator

from rbx.report.number import UNKNOWN, milliseconds, percent, score, significant
from rbx.report.ontime.estimator import REGIMES, EstimatorErrors, EstimatorResult
from rbx.report.ontime.published import MAPE, PREDICTION_S
from rbx.report.ontime.study import OnTimeStudy
from rbx.report.ontime.tables import PUBLISHED_NOTE
from rbx.report.table import Column, Table, Value, number

_WHO = (Column("policy", numeric=False), Column("λ, req/s"))


def estimator_tables(study: OnTimeStudy, *, published: bool) -> Iterator[Table]:
    """Nothing where no policy predicts TTFT."""
    if not study.estimators:
        return
    yield _errors(study, published=published)
    yield _disturbance(study)
    yield _regimes(study)
    yield _confusions(study)


def _errors(study: OnTimeStudy, *, published: bool) -> Table:
    columns = (
        *_WHO,
        Column("n", "completed requests with a prediction"),
        Column("MAPE", "mean of |predicted − measured| ÷ measured"),
        Column("median APE"),
        Column("p90 APE"),
        Column("bias", "Σ (predicted − measured) ÷ Σ measured"),
        Column("bias, ms", "mean of predicted − measured"),
        Column("mean error, ms", "mean of |predicted − measured|"),
        Column("Spearman", "rank correlation over requests"),
    )
    rows = tuple((*_who(each), *_figures(each.overall)) for each in study.estimators)
    note = (
        "TTFT predicted for the instance that was chosen, from the scheduled arrival, against the TTFT that "
        "came; completed requests. A policy is judged on its own choices: instances that it took for fast."
    )
    if published:
        note += (
            f" Published for BEA: MAPE about {percent(MAPE)} for one small model at moderate load, some "
            f"{significant(1000 * PREDICTION_S, 1)} ms a prediction. {PUBLISHED_NOTE} How long a prediction "
            "takes is not measured by a sweep but by the benchmarks."
        )
    return Table("Predicted and measured TTFT", note, columns, rows)


def _who(result: EstimatorResult) -> tuple[Value, Value]:
    return (
        Value(result.label, mark=result.family),
        Value(f"{result.rate_per_s:g}", sort=result.rate_per_s),
    )


def _figures(found: EstimatorErrors) -> tuple[Value, ...]:
    return (
        Value(f"{found.n:,}", sort=float(found.n)),
        number(found.mape, _error),
        number(found.median_ape, _error),
        number(found.p90_ape, _error),
        number(found.relative_bias, _error),
        number(found.bias_s, milliseconds),
        number(found.mean_absolute_s, milliseconds),
        number(found.spearman, score),
    )


def _error(share: float) -> str:
    """A relative error: one decimal below 10 %, thousands set apart above."""
    if share != share:
        return UNKNOWN
    return f"{100 * share:,.{1 if abs(share) < 0.1 else 0}f} %".replace("-", "−")


def _regimes(study: OnTimeStudy) -> Table:
    columns = (
        *_WHO,
        *(
            column
            for name, _, _ in REGIMES
            for column in (
                Column(f"n, {name}"),
                Column("median APE", f"measured TTFT {name}"),
                Column("MAPE", f"measured TTFT {name}"),
                Column("bias, ms", f"measured TTFT {name}"),
            )
        ),
    )
    rows = tuple(
        (
            *_who(each),
            *(
                value
                for errors in each.regimes
                for value in (
                    Value(f"{errors.n:,}", sort=float(errors.n)),
                    number(errors.median_ape, _error),
                    number(errors.mape, _error),
                    number(errors.bias_s, milliseconds),
                )
            ),
        )
        for each in study.estimators
    )
    note = (
        "By the TTFT that was measured. What came out long was more often predicted too short, and the other "
        "way round: read the regimes beside the row over all."
    )
    return Table("Predictions by regime", note, columns, rows)


def _disturbance(study: OnTimeStudy) -> Table:
    columns = (
        *_WHO,
        Column("n undisturbed"),
        Column("MAPE", "of the undisturbed"),
        Column("bias, ms", "of the undisturbed"),
        Column("late", "share of the undisturbed that missed their target"),
        Column("n disturbed"),
        Column("MAPE", "of the disturbed"),
        Column("bias, ms", "of the disturbed"),
        Column("late", "share of the disturbed that missed their target"),
    )
    rows = tuple(
        (
            *_who(each),
            *_disturbed(each.undisturbed, each.late_undisturbed),
            *_disturbed(each.disturbed, each.late_disturbed),
        )
        for each in study.estimators
    )
    note = (
        "Disturbed: the request's instance was sent another one before its first token. A prediction made at "
        "the decision can't know of it, yet what comes later may join the same steps and lengthen them."
    )
    return Table("Predictions and what was sent later", note, columns, rows)


def _disturbed(found: EstimatorErrors, late: float) -> tuple[Value, ...]:
    return (
        Value(f"{found.n:,}", sort=float(found.n)),
        number(found.mape, _error),
        number(found.bias_s, milliseconds),
        number(late, lambda share: percent(share, 1)),
    )


def _confusions(study: OnTimeStudy) -> Table:
    columns = (
        *_WHO,
        Column("predicted in time, was"),
        Column("predicted in time, was late"),
        Column("predicted late, was in time"),
        Column("predicted late, was"),
        Column("right", "share of requests on the predicted side of their target"),
    )
    rows = []
    for each in study.estimators:
        c = each.confusion
        counts = (c.early_early, c.early_late, c.late_early, c.late_late)
        rows.append(
            (
                *_who(each),
                *(Value(f"{n:,}", sort=float(n)) for n in counts),
                number(c.agreement, lambda share: percent(share, 1)),
            )
        )
    note = (
        "Completed requests. BEAR sends a request where it is predicted late only if no instance is "
        "predicted in time."
    )
    return Table("Predicted and met targets", note, columns, tuple(rows))
