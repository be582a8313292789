"""A step-time report as terminal tables."""

from __future__ import annotations

from collections.abc import Iterator

from rich.box import SIMPLE
from rich.table import Table

from rbx.heads.step_time.report import FEWEST_BLOCKS, StepTimeReport


def step_time_tables(report: StepTimeReport) -> Iterator[Table]:
    """Errors by kind of step, then coefficients; each fits a terminal of 80 columns."""
    yield _errors(report)
    yield _coefficients(report)


def _errors(report: StepTimeReport) -> Table:
    table = _table(
        f"{_head(report)}\n\nErrors on held-out blocks (total: of the summed time)",
        "model", "steps", "n", "MAPE", "median", "p90", "bias", "total",
    )  # fmt: skip
    table.caption = _intervals(report)
    table.caption_justify = "left"
    for model in report.models:
        for at, row in enumerate(model.accuracy):
            figures = (row.mape, row.median_ape, row.p90_ape)
            signed = (row.bias, row.total_bias)
            table.add_row(
                model.feature_set if at == 0 else "",
                row.kind,
                f"{row.n:,}",
                *("–" if value is None else f"{value:.1%}" for value in figures),
                *("–" if value is None else f"{value:+.1%}" for value in signed),
                end_section=at == len(model.accuracy) - 1,
            )
    return table


def _intervals(report: StepTimeReport) -> str:
    known = [
        f"{item.feature_set} {item.mape_low:.1%} to {item.mape_high:.1%}"
        for item in report.models
        if item.mape_low is not None and item.mape_high is not None
    ]
    if known:
        return f"95 % interval of the MAPE of all steps: {', '.join(known)}"
    return (
        f"No interval of the MAPE: {report.blocks_test} block(s) held out, at least {FEWEST_BLOCKS} are "
        "needed; observe longer, or give a shorter --block-s"
    )


def _head(report: StepTimeReport) -> str:
    stalls = report.stalls
    excess = (
        "" if stalls.mean_s is None else f", {stalls.mean_s * 1e3:.0f} ms longer than the rest on average"
    )
    return (
        f"{report.n_train:,} steps of {report.blocks_train} blocks fitted, {report.n_test:,} of "
        f"{report.blocks_test} held out, the first of each trace left out. Stalls: {stalls.n:,} "
        f"({stalls.share:.2%} of steps{excess})."
    )


def _coefficients(report: StepTimeReport) -> Table:
    table = _table("Coefficients", "model", "coefficient", "seconds", "95 % interval")
    for model in report.models:
        for at, item in enumerate(model.coefficients):
            table.add_row(
                model.feature_set if at == 0 else "",
                item.name,
                f"{item.seconds:.4g}",
                f"{item.low:.3g} to {item.high:.3g}" if item.measured else "not measured",
            )
        condition = f"condition number {model.condition_number:.0f}"
        table.add_row("", condition, "", "", end_section=True)
    return table


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=SIMPLE, pad_edge=False)
    for column in columns:
        left = column in ("model", "steps", "coefficient")
        table.add_column(column, justify="left" if left else "right", overflow="fold")
    return table
