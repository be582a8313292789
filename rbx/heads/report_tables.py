"""The training report as terminal tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rich.table import Table

from rbx.heads.evaluation import Interval
from rbx.heads.report import TrainingReport


def report_tables(report: TrainingReport, encode_alone_ms: Mapping[str, float]) -> Iterator[Table]:
    """Quality and length by model, routing, TPOT by tier, encoders."""
    label = "synthetic data" if report.synthetic else "real data"
    head = (
        f"{report.grid} ({label}), metric {report.metric}, encoder {report.encoder}, k = {report.k}, "
        f"{report.n_train} train / {report.n_test} test prompts, labels {report.label_coverage:.1%}"
    )
    yield _models(report, head)
    yield _routing(report)
    yield _tiers(report)
    yield _encoders(report, encode_alone_ms)


def _models(report: TrainingReport, head: str) -> Table:
    table = _table(
        f"Quality and length on the test split\n{head}",
        "model", "n", "mean quality", "MAE", "Spearman", "AUC",
        "n length", "mean tokens", "MAE tokens", "R² log length", "histogram ECE",
    )  # fmt: skip
    for model in report.models:
        table.add_row(
            model.model,
            str(model.n_quality),
            _number(model.mean_quality),
            _number(model.quality_mae),
            _number(model.quality_spearman),
            _number(model.quality_auc),
            str(model.n_length),
            _number(model.mean_length_tokens, 0),
            _number(model.length_mae_tokens, 0),
            _number(model.log_length_r2),
            _number(model.length_calibration_error),
        )
    return table


def _routing(report: TrainingReport) -> Table:
    routing = report.routing
    table = _table(
        "Routing by the highest predicted quality (no cost, no latency)", "figure", "heads", "n", "beside"
    )
    table.add_row(
        "picks a best model (ties count)",
        _number(routing.picks_best),
        str(routing.n),
        f"random {_number(routing.picks_best_random)}",
    )
    table.add_row(
        "picks the one best model",
        _number(routing.picks_best_strict),
        str(routing.n_strict),
        f"random {_number(routing.picks_best_strict_random)}",
    )
    table.add_row(
        "mean quality",
        _interval(routing.routed),
        str(routing.n),
        f"random {_number(routing.random)}, oracle {_number(routing.oracle)}",
    )
    table.add_row(
        f"against {routing.best_single_model} alone",
        _interval(routing.routed_minus_best_single, signed=True),
        str(routing.n),
        f"alone {_number(routing.best_single)}",
    )
    return table


def _tiers(report: TrainingReport) -> Table:
    table = _table(
        "TPOT heads on held-out blocks of time (simulated engine; in brackets the pool file's constant)",
        "tier", "n train", "n test", "capacity req/s", "TPOT MAE ms/token", "MAPE",
        "E2E MAPE, slot free", "n free", "E2E MAPE, all", "at predicted length", "low-load TPOT ms", "n",
    )  # fmt: skip
    for tier in report.tiers:
        table.add_row(
            tier.tier,
            str(tier.n_train),
            str(tier.n_test),
            f"{tier.capacity_per_s:.2f}",
            f"{tier.tpot_mae_ms:.2f} ({tier.prior_tpot_mae_ms:.2f})",
            f"{tier.tpot_mape:.1%}",
            f"{_percent(tier.e2e_mape_free)} ({_percent(tier.prior_e2e_mape_free)})",
            str(tier.n_free),
            f"{tier.e2e_mape:.1%} ({tier.prior_e2e_mape:.1%})",
            f"{tier.e2e_mape_predicted:.1%}",
            f"{tier.low_load_tpot_ms:.1f}",
            str(tier.n_low_load),
        )
    return table


def _encoders(report: TrainingReport, encode_alone_ms: Mapping[str, float]) -> Table:
    table = _table(
        "Encoders on the same split",
        "encoder", "Spearman", "AUC", "R² log length", "routed quality", "minus chosen", "ms alone",
    )  # fmt: skip
    for encoder in report.encoders:
        table.add_row(
            encoder.name,
            _number(encoder.spearman),
            _number(encoder.auc),
            _number(encoder.log_length_r2),
            _interval(encoder.routed),
            _interval(encoder.routed_minus_chosen, signed=True) if encoder.routed_minus_chosen else "chosen",
            f"{encode_alone_ms[encoder.name]:.2f}",
        )
    return table


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left")
    for position, column in enumerate(columns):
        table.add_column(column, justify="left" if position == 0 else "right")
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
