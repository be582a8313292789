"""The findings of ``rbx validate`` as tables, for terminal and Markdown alike."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace

from rbx.report.fidelity.errors import ErrorRow
from rbx.report.fidelity.ordering import OrderRow, Swap
from rbx.report.fidelity.study import CALIBRATED, FITTED, HELD_OUT, PLANNED, Fidelity
from rbx.report.fidelity.timing import WORDS
from rbx.report.interval import Interval
from rbx.report.number import UNKNOWN, milliseconds, percent, score, signed, significant, usd_per_thousand
from rbx.report.table import Column, Table, Value, Write, estimate, number

_SHOWN_SWAPS = 3
_METRIC = {
    "quality": "quality",
    "e2e_s": "E2E",
    "ttft_s": "TTFT",
    "cost_usd": "cost",
    "throughput_per_s": "throughput",
}
_WRITE: dict[str, Write] = {
    "quality": score,
    "e2e_s": lambda value: f"{significant(value)} s",
    "ttft_s": lambda value: f"{milliseconds(value)} ms",
    "cost_usd": lambda value: f"{usd_per_thousand(value)} $/1,000",
    "throughput_per_s": lambda value: f"{significant(value)}/s",
}
_ERROR_NOTE = (
    "TTFT and E2E from dispatch to client. Error of the mean: replayed mean ÷ live mean − 1; MAPE: mean of "
    "|replayed ÷ live − 1| over requests; p90: of those. Intervals: 95 %, blocks of consecutive requests."
)


def all_tables(found: Fidelity) -> Iterator[Table]:
    """In the order in which they are read."""
    yield _errors("Decisions replayed, by rate", found, [r for r in found.errors if r.tier is None])
    by_tier = [r for r in found.errors if r.tier is not None and r.rate_per_s is None]
    yield _errors("Decisions replayed, by tier", found, by_tier)
    yield step_table(found)
    yield throughput_table(found)
    if found.mixes:
        yield mix_table(found)
    if found.orders:
        yield order_table(found)


def _errors(caption: str, found: Fidelity, rows: Iterable[ErrorRow]) -> Table:
    """Held-out requests where something was fitted, so that both sets of step times face the same ones."""
    fitted = any(row.source == FITTED for row in found.errors)
    population = HELD_OUT if fitted else "all"
    kept = [row for row in rows if row.population == population]
    kept.sort(
        key=lambda r: (r.rate_per_s or 0.0, r.tier or "", list(WORDS).index(r.metric), r.source == FITTED)
    )
    return Table(
        caption=caption,
        note=f"{population.capitalize()} requests that completed on the first attempt. {_ERROR_NOTE}",
        columns=(
            Column("rate, tier", numeric=False),
            Column("metric", numeric=False),
            Column("step times", numeric=False),
            Column("n"),
            Column("live mean"),
            Column("error of the mean"),
            Column("MAPE"),
            Column("median"),
            Column("p90"),
            Column("p99, error"),
        ),
        rows=tuple(_error_values(row) for row in kept),
    )


def _error_values(row: ErrorRow) -> tuple[Value, ...]:
    return (
        Value(row.tier or (f"{row.rate_per_s:g}/s" if row.rate_per_s is not None else "all")),
        Value(WORDS[row.metric]),
        Value(row.source),
        Value(f"{row.n:,}"),
        Value(_seconds(row.live_mean_s)),
        estimate(row.mean_error, signed_percent),
        estimate(row.mape, _one_decimal),
        number(row.median_ape, _one_decimal),
        number(row.p90_ape, _one_decimal),
        number(row.p99_error, signed_percent),
    )


def step_table(found: Fidelity) -> Table:
    """What each tier's steps took, were said to take, and how well a fit of them does."""
    rows = []
    for each in found.fits:
        fit = each.fit
        rows.append(
            (
                Value(each.tier),
                Value(f"{each.steps:,}"),
                Value(f"{each.windows:,}"),
                number(each.window_s, milliseconds),
                Value(f"{each.aligned:,} of {each.answers:,}"),
                number(each.measured_s, milliseconds),
                number(each.believed_s / each.measured_s - 1.0, signed_percent),
                Value(fit.feature_set if fit else "–", hint=each.refused),
                number(fit.on("all").median_ape or 0.0, _one_decimal) if fit else Value("–"),
                number(fit.on("all").total_bias or 0.0, signed_percent) if fit else Value("–"),
                number(found.outside_s[each.tier], milliseconds)
                if each.tier in found.outside_s
                else Value("–"),
            )
        )
    notes = [f"{each.tier}: {each.refused}." for each in found.fits if each.refused]
    return Table(
        caption="Step times",
        note=(
            "Steps found in the stamps of the tokens, taken together to windows that are long against the "
            "stamps' jitter. The fit is of one half of the blocks of time, its errors of the other. Pool "
            "file: its price of the same windows ÷ measured − 1. Outside: what a first token takes beside "
            "queue and step, beyond the network_s of the experiment. " + " ".join(notes)
        ).strip(),
        columns=(
            Column("tier", numeric=False),
            Column("steps"),
            Column("windows"),
            Column("each, ms"),
            Column("answers aligned"),
            Column("mean step, ms"),
            Column("pool file"),
            Column("model", numeric=False),
            Column("median error"),
            Column("total"),
            Column("outside, ms"),
        ),
        rows=tuple(rows),
    )


def throughput_table(found: Fidelity) -> Table:
    """One row a cell and set of step times."""
    rows = sorted(found.throughput, key=lambda r: (r.rate_per_s, r.label, r.seed, r.source == FITTED))
    return Table(
        caption="Throughput, decisions replayed",
        note="Completions a second within the arrival window; output tokens a second to the last completion.",
        columns=(
            Column("policy", numeric=False),
            Column("rate"),
            Column("seed"),
            Column("step times", numeric=False),
            Column("n"),
            Column("live, req/s"),
            Column("error"),
            Column("live, tokens/s"),
            Column("error"),
        ),
        rows=tuple(
            (
                Value(row.label),
                number(row.rate_per_s, significant),
                Value(str(row.seed)),
                Value(row.source),
                Value(f"{row.n:,}"),
                number(row.live_window_per_s, significant),
                number(row.window_error, signed_percent),
                number(row.live_tokens_per_s, significant),
                number(row.tokens_error, signed_percent),
            )
            for row in rows
        ),
    )


def mix_table(found: Fidelity) -> Table:
    """Shares of tiers; simulated twice."""
    tiers = [tier.name for tier in found.pool.tiers]
    rows: list[tuple[float, str, str, dict[str, float], float | None]] = []
    for row in sorted(found.mixes, key=lambda each: (each.rate_per_s, each.label, each.source != PLANNED)):
        if row.source == PLANNED:
            rows.append((row.rate_per_s, row.label, "live", row.live, None))
        rows.append((row.rate_per_s, row.label, row.source, row.simulated, row.moved))
    return Table(
        caption="Tier mix, policies run again by the simulator",
        note=f"Shares of completed requests. Moved: the share that changed its tier. {_sources(found)}",
        columns=(
            Column("policy", numeric=False),
            Column("rate"),
            Column("run", numeric=False),
            *(Column(tier) for tier in tiers),
            Column("moved"),
        ),
        rows=tuple(
            (
                Value(label),
                number(rate_per_s, significant),
                Value(run),
                *(number(mix.get(tier, 0.0), percent) for tier in tiers),
                Value("") if moved is None else number(moved, percent),
            )
            for rate_per_s, label, run, mix, moved in rows
        ),
    )


def order_table(found: Fidelity) -> Table:
    """Best policies first, live and simulated, with Kendall's tau and the pairs that swap."""
    rows = sorted(
        found.orders,
        key=lambda each: (each.rate_per_s, list(_METRIC).index(each.metric), each.source != PLANNED),
    )
    return Table(
        caption="Order of policies by mean, live and simulated",
        note=(
            "Kendall's tau-b over all policies, 1 for the same order; intervals over prompts, paired. A pair "
            "that swaps is clear where both runs' differences exclude zero: there run and "
            "simulator differ by more than chance, by the simulator's fault or a busy machine's. "
            f"{_sources(found)}"
        ),
        columns=(
            Column("rate"),
            Column("metric", numeric=False),
            Column("simulated", numeric=False),
            Column("tau"),
            Column("best live", numeric=False),
            Column("best simulated", numeric=False),
            Column("swaps"),
            Column("clear swaps", numeric=False),
        ),
        rows=tuple(_order_values(row) for row in rows),
    )


def _order_values(row: OrderRow) -> tuple[Value, ...]:
    write = _WRITE[row.metric]
    clear = [swap for swap in row.swaps if swap.is_clear]
    return (
        number(row.rate_per_s, significant),
        Value(_METRIC[row.metric]),
        Value(row.source),
        _tau(row.tau),
        Value(_first(row.live, write)),
        Value(_first(row.simulated, write)),
        Value(str(len(row.swaps))),
        Value(
            "; ".join(_words(swap) for swap in clear[:_SHOWN_SWAPS]) or "none", tone="bad" if clear else ""
        ),
    )


def _tau(tau: Interval) -> Value:
    value = estimate(
        tau, lambda number: f"{number:.2f}".replace("-", "−") if math.isfinite(number) else UNKNOWN
    )
    # An order that no resample changes is as sure as an order can be.
    return replace(value, sub="in every resample") if tau.status == "degenerate" else value


def _first(ranked: tuple[tuple[str, float], ...], write: Write) -> str:
    return f"{ranked[0][0]} ({write(ranked[0][1])})" if ranked else "–"


def _words(swap: Swap) -> str:
    return f"{swap.better} before {swap.worse}"


def _sources(found: Fidelity) -> str:
    known = math.isfinite(found.lengths_seen)
    seen = f", {percent(found.lengths_seen)} of them seen live" if known else ""
    return (
        f"{PLANNED.capitalize()}: step times of the pool file, lengths of the grid; {CALIBRATED}: step times "
        f"as fitted, lengths as delivered{seen}."
    )


def interval_words(interval: Interval, write: Write) -> str:
    """``value [low, high]`` in a line."""
    shown = estimate(interval, write)
    return f"{shown.text} {shown.sub}" if interval.status == "ok" else shown.text


def _one_decimal(share: float) -> str:
    """Errors of a hundredth of a per cent are none: unlike shares, they may look like zero."""
    return f"{100 * share:.1f} %".replace("-", "−") if math.isfinite(share) else UNKNOWN


def signed_percent(share: float) -> str:
    """An error with its sign and one decimal."""
    return signed(_one_decimal(share))


def _seconds(value: float) -> str:
    return f"{milliseconds(value)} ms" if value < 1.0 else f"{significant(value)} s"
