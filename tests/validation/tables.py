"""What ``python -m tests.validation`` prints, as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import astuple

import numpy as np
from numpy.typing import NDArray

from tests.validation.errors import METRICS, Errors, by_band, times_s
from tests.validation.recorded_run import RecordedRun
from tests.validation.replay import Served

Mask = NDArray[np.bool_]

STATISTICS = ("mean", "median", "p90", "p95", "p99")
ERROR_COLUMNS = (
    "requests", "MAPE %", "median %", "p90 %", "bias %", "mean error, ms", "Spearman",
)  # fmt: skip


def print_errors(title: str, rows: Iterable[tuple[str, str, Errors]]) -> None:
    """One row a band and metric."""
    table = []
    for band, metric, errors in rows:
        n, *relative, absolute_ms, spearman = astuple(errors)
        shown = (*(f"{value:.1f}" for value in relative), f"{absolute_ms:,.1f}", f"{spearman:.3f}")
        table.append((band, metric, str(n), *shown))
    _print_table(title, ("waiting at arrival", "", *ERROR_COLUMNS), table)


def print_experiments(run: RecordedRun, variants: Mapping[str, Served], chosen: Mask) -> None:
    """One row a variant: errors of the requests ``chosen`` (N,), preemptions, and the end of the run."""
    table = []
    for name, replayed in variants.items():
        errors = {metric: e for band, metric, e in by_band(run, replayed, chosen) if band == "all"}
        cells = [f"{errors[metric].mape:.1f} ({errors[metric].bias:+.1f})" for metric in METRICS]
        entry_ms = 1000 * float(np.mean((replayed.first_token_s - replayed.scheduled_s)[chosen]))
        end_s = float(replayed.last_token_s.max())
        table.append((name, *cells, f"{entry_ms:.0f}", str(replayed.preemptions), f"{end_s:.1f}"))
    entry_ms = 1000 * float(np.mean((run.first_token_s - run.scheduled_s)[chosen]))
    table.append(("the recorded run", "", "", "", f"{entry_ms:.0f}", "", f"{run.last_token_s.max():.1f}"))
    errors_of = (f"{metric}: MAPE (bias) %" for metric in METRICS)
    headings = ("", *errors_of, "first batch formed to first token, ms", "preemptions", "last token, s")
    _print_table(
        "What makes the difference: the requests of (ii), one thing changed at a time", headings, table
    )


def print_distributions(run: RecordedRun, replays: Mapping[str, Served]) -> None:
    """All requests: figures of the recorded run, of the replays, and of the tool that published the run."""
    recorded = times_s(run, run.first_token_s, run.last_token_s)
    ours = [times_s(run, replayed.first_token_s, replayed.last_token_s) for replayed in replays.values()]
    table = []
    for metric, label in zip(METRICS, ("TTFT", "TPOT", "Latency"), strict=True):
        for statistic in STATISTICS:
            truth_ms = _statistic_ms(recorded[metric], statistic)
            figures_ms = [_statistic_ms(times[metric], statistic) for times in ours]
            cells = [f"{value:,.1f} ({100 * (value / truth_ms - 1):+.1f} %)" for value in figures_ms]
            theirs = run.publisher[f"{label} {statistic}".lower()]
            told = f"{theirs.simulated_ms:,.1f} ({theirs.difference_percent:+.1f} %)"
            table.append((f"{metric} {statistic}", f"{truth_ms:,.1f}", *cells, told))
    headings = ("ms", "vLLM", *replays, "the publisher's own simulator")
    _print_table(
        "All requests together, from the client's arrival (the publisher: from vLLM's)", headings, table
    )


def _statistic_ms(seconds: NDArray[np.float64], statistic: str) -> float:
    if statistic == "mean":
        return 1000.0 * float(seconds.mean())
    share = 0.5 if statistic == "median" else int(statistic[1:]) / 100
    return 1000.0 * float(np.quantile(seconds, share))


def _print_table(title: str, headings: Iterable[str], rows: Iterable[Iterable[str]]) -> None:
    heads = list(headings)
    print(f"\n{title}\n\n| {' | '.join(heads)} |\n|{'---|' * len(heads)}")
    for row in rows:
        print(f"| {' | '.join(row)} |")
