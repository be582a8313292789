"""The training report as terminal tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rich.box import SIMPLE
from rich.markup import escape
from rich.table import Table

from rbx.heads.evaluation import Interval
from rbx.heads.remaining import PROGRESS
from rbx.heads.report import TrainingReport


def report_tables(report: TrainingReport, encode_alone_ms: Mapping[str, float]) -> Iterator[Table]:
    """Quality, length, what remains of it, routing, TPOT and encoders; each fits a terminal of 80 columns."""
    yield _quality(report)
    yield _length(report)
    yield _remaining(report)
    yield _routing(report)
    yield _tiers(report)
    yield _capacity(report)
    yield _encoders(report, encode_alone_ms)


def _quality(report: TrainingReport) -> Table:
    table = _table(
        f"{_head(report)}\n\nQuality on the test prompts", "model", "n", "mean", "MAE", "Spearman", "AUC"
    )
    for model in report.models:
        table.add_row(
            escape(model.model),
            str(model.n_quality),
            _number(model.mean_quality),
            _number(model.quality_mae),
            _number(model.quality_spearman),
            _number(model.quality_auc),
        )
    return table


def _head(report: TrainingReport) -> str:
    label = "synthetic data" if report.synthetic else "real data"
    return escape(
        f"{report.grid} ({label}), metric {report.metric}: {report.n_train} train, {report.n_test} test "
        f"prompts, {report.label_coverage:.1%} of labels known. Encoder {report.encoder}, k = {report.k}."
    )


def _length(report: TrainingReport) -> Table:
    table = _table(
        "Output length on the test prompts (ECE: calibration error of P(length < 64 j))",
        "model", "n", "mean tokens", "MAE", "R² of log", "ECE",
    )  # fmt: skip
    for model in report.models:
        table.add_row(
            escape(model.model),
            str(model.n_length),
            _number(model.mean_length_tokens, 0),
            _number(model.length_mae_tokens, 0),
            _number(model.log_length_r2),
            _number(model.length_calibration_error),
        )
    return table


def _remaining(report: TrainingReport) -> Table:
    table = _table(
        "Remaining output when a part is done: median error in tokens, test prompts",
        "model", "n", "by", *(f"{progress:.0%}" for progress in PROGRESS),
    )  # fmt: skip
    for model in report.remaining:
        if not model.errors:
            table.add_row(escape(model.model), "0")
            continue
        ways = (
            ("survivors", [error.survivors_tokens for error in model.errors]),
            ("prediction", [error.predicted_tokens for error in model.errors]),
            (f"prediction + {model.reserve_tokens}", [error.reserved_tokens for error in model.errors]),
        )
        for at, (way, errors) in enumerate(ways):
            head = (escape(model.model), str(model.n)) if at == 0 else ("", "")
            table.add_row(*head, way, *(_number(error, 0) for error in errors))
    return table


def _routing(report: TrainingReport) -> Table:
    routing = report.routing
    table = _table("Routing by the highest predicted quality, whatever it costs", "figure", "heads", "n")
    table.add_row("picks a best model (a tie counts)", _number(routing.picks_best), str(routing.n))
    table.add_row("  at random", _number(routing.picks_best_random), str(routing.n))
    table.add_row("picks the one best model", _number(routing.picks_best_strict), str(routing.n_strict))
    table.add_row("  at random", _number(routing.picks_best_strict_random), str(routing.n_strict))
    table.add_row("mean quality", _interval(routing.routed), str(routing.n))
    table.add_row("  oracle", _number(routing.oracle), str(routing.n))
    table.add_row("  at random", _number(routing.random), str(routing.n))
    table.add_row(
        f"  {escape(routing.best_single_model)} alone", _number(routing.best_single), str(routing.n)
    )
    table.add_row(
        "  heads − that model", _interval(routing.routed_minus_best_single, signed=True), str(routing.n)
    )
    return table


def _tiers(report: TrainingReport) -> Table:
    table = _table(
        "Latency on held-out blocks of time, simulated engine (in brackets: the static prior)",
        "tier", "n", "TPOT MAE ms", "MAPE", "E2E free slot", "n", "E2E all",
    )  # fmt: skip
    for tier in report.tiers:
        table.add_row(
            tier.tier,
            str(tier.n_test),
            f"{tier.tpot_mae_ms:.2f} ({tier.prior_tpot_mae_ms:.2f})",
            f"{tier.tpot_mape:.1%}",
            f"{_percent(tier.e2e_mape_free)} ({_percent(tier.prior_e2e_mape_free)})",
            str(tier.n_free),
            f"{tier.e2e_mape:.1%} ({tier.prior_e2e_mape:.1%})",
        )
    return table


def _capacity(report: TrainingReport) -> Table:
    table = _table("Rate sweep", "tier", "n train", "capacity req/s", "low-load TPOT ms", "n", "E2E")
    table.caption, table.caption_justify = _share_of_length(report), "left"
    for tier in report.tiers:
        table.add_row(
            tier.tier,
            str(tier.n_train),
            f"{tier.capacity_per_s:.2f}",
            f"{tier.low_load_tpot_ms:.1f}",
            str(tier.n_low_load),
            f"{tier.e2e_mape_predicted:.1%}",
        )
    return table


def _share_of_length(report: TrainingReport) -> str:
    """Why E2E is large: the same requests with the true lengths, on average over the tiers."""
    told = sum(tier.e2e_mape_predicted for tier in report.tiers) / len(report.tiers)
    true = sum(tier.e2e_mape for tier in report.tiers) / len(report.tiers)
    part = "is dominated by" if true < told / 2 else "includes"
    return (
        f"E2E (MAPE over all states) uses predicted lengths and {part} their error: with the true lengths "
        f"it is {true:.0%} instead of {told:.0%} on average over the tiers (E2E all, above)."
    )


def _encoders(report: TrainingReport, encode_alone_ms: Mapping[str, float]) -> Table:
    table = _table(
        "Encoders on the same split (R² of log length, ms for one text alone)",
        "encoder", "AUC", "Spearman", "R² len", "routed quality", "ms",
    )  # fmt: skip
    for encoder in report.encoders:
        table.add_row(
            escape(encoder.name),
            _number(encoder.auc),
            _number(encoder.spearman),
            _number(encoder.log_length_r2),
            _interval(encoder.routed),
            f"{encode_alone_ms[encoder.name]:.2f}",
        )
        if encoder.routed_minus_chosen:
            change = _interval(encoder.routed_minus_chosen, signed=True)
            table.add_row(f"  − {escape(report.encoder)}", "", "", "", change, "")
    return table


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=SIMPLE, pad_edge=False)
    for position, column in enumerate(columns):
        table.add_column(column, justify="left" if position == 0 else "right", overflow="fold")
    return table


def _number(value: float | None, digits: int = 3) -> str:
    return "–" if value is None else f"{value:.{digits}f}"


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{value:.1%}"


def _interval(interval: Interval | None, *, signed: bool = False) -> str:
    if interval is None:
        return "–"
    sign = "+" if signed else ""
    mean = f"{interval.mean:{sign}.3f}"
    if interval.low is None or interval.high is None:
        return f"{mean} (interval not estimable)"
    return f"{mean} [{interval.low:{sign}.3f}, {interval.high:{sign}.3f}]"
