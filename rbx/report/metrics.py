"""What one or more cells of a policy measured; each number with the population it is taken over.

Latency means and percentiles are over completed (``ok``) requests. Requests that failed or were
never sent count as missed targets, as zero in ``utility`` and as nothing in throughput.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rbx.report.load import Cell
from rbx.report.requests import Floats, Requests
from rbx.sweep.records import STATUSES


@dataclass(frozen=True)
class Counts:
    """Populations: every scheduled request, how it ended, and how many completed ones have a score."""

    scheduled: int
    sent: int
    not_sent: int
    ok: int
    error: int
    timeout: int
    cancelled: int
    scored: int


@dataclass(frozen=True)
class Spread:
    """Mean and percentiles (linear between order statistics) of the ``n`` values that are known."""

    n: int
    mean: float
    p50: float
    p95: float
    p99: float


@dataclass(frozen=True)
class Decision:
    """Where the time from arrival to assignment went, means over the ``n`` sent requests, in seconds.

    ``batch_size`` is the mean over batches; ``ttft_share`` is Σ decision time ÷ Σ TTFT of requests that got
    a first token.
    """

    n: int
    scoring_wait_s: float
    batch_wait_s: float
    encode_s: float
    score_s: float
    batch_size: float
    ttft_share: float

    @property
    def total_s(self) -> float:
        """Mean time from arrival to assignment."""
        return self.scoring_wait_s + self.batch_wait_s + self.encode_s + self.score_s


@dataclass(frozen=True)
class Metrics:
    """All figures of one policy at one rate; NaN where there is nothing to measure.

    Over several seeds, requests are pooled; throughput, duration and utilisation are means over
    the cells, since each cell has its own clock.
    """

    counts: Counts
    quality_mean: float
    coverage: float
    utility_mean: float
    ttft_s: Spread
    ttft_from_sent_s: Spread
    tpot_s: Spread
    e2e_s: Spread
    cost_per_request_usd: float
    cost_total_usd: float
    throughput_window_per_s: float
    throughput_to_last_completion_per_s: float
    achieved_rate_per_s: float
    output_tokens_per_s: float
    slo_attainment: float
    goodput_per_s: float
    decision: Decision
    model_share: dict[str, float]
    tier_share: dict[str, float]
    exhausted_share: float
    hopeless_share: float
    fallback_share: float
    preemptions: int
    utilization: float
    tier_utilization: dict[str, float]
    send_delay_p99_s: float
    duration_s: float


def measure(cells: Sequence[Cell]) -> Metrics:
    """Measure the cells of one policy at one rate (one for each seed) together."""
    runs = [cell.requests for cell in cells]
    ok = np.concatenate([run.ok for run in runs])
    scored = np.concatenate([run.scored for run in runs])
    quality = np.concatenate([run.quality for run in runs])
    sent = np.concatenate([np.isfinite(run.sent_s) for run in runs])
    cost = np.concatenate([run.cost_usd for run in runs])
    counts = _counts(runs)
    failed = counts.scheduled - counts.ok
    judged = counts.scored + failed
    pooled_ok = _Pool(runs, ok)
    has_slo = any(np.isfinite(run.slo_met).any() for run in runs)
    attained = float(sum(((run.slo_met == 1) & run.ok).sum() for run in runs)) if has_slo else np.nan
    spans = [_span_s(run) for run in runs]
    return Metrics(
        counts=counts,
        quality_mean=_mean(quality[scored]),
        coverage=_share(counts.scored, counts.ok),
        utility_mean=_share(float(quality[scored].sum()), judged),
        ttft_s=pooled_ok.spread("ttft_s"),
        ttft_from_sent_s=pooled_ok.spread("ttft_from_sent_s"),
        tpot_s=pooled_ok.spread("tpot_s"),
        e2e_s=pooled_ok.spread("e2e_s"),
        cost_per_request_usd=_share(float(cost.sum()), counts.ok),
        cost_total_usd=float(cost.sum()),
        throughput_window_per_s=_mean(np.array([_within_window(run) for run in runs])),
        throughput_to_last_completion_per_s=_mean(
            np.array([_per_s(int(r.ok.sum()), s) for r, s in zip(runs, spans, strict=True)])
        ),
        achieved_rate_per_s=_mean(np.array([_rate(run.sent_s) for run in runs])),
        output_tokens_per_s=_mean(
            np.array([_per_s(np.nansum(r.output_tokens[r.ok]), s) for r, s in zip(runs, spans, strict=True)])
        ),
        slo_attainment=_share(attained, counts.scheduled),
        goodput_per_s=_share(attained, float(sum(run.window_s for run in runs))),
        decision=_decision(runs, sent, ok),
        model_share=_shares(np.concatenate([run.model for run in runs])[ok]),
        tier_share=_shares(np.concatenate([run.tier for run in runs])[ok]),
        exhausted_share=_share(int(np.concatenate([run.exhausted for run in runs])[ok].sum()), counts.ok),
        hopeless_share=_share(int(np.concatenate([r.hopeless for r in runs])[sent].sum()), int(sent.sum())),
        fallback_share=_share(int(np.concatenate([r.fallback for r in runs])[sent].sum()), int(sent.sum())),
        preemptions=int(sum(run.preemptions.sum() for run in runs)),
        utilization=_mean(np.array([_busy_share(cell) for cell in cells])),
        tier_utilization=_tier_utilization(cells),
        send_delay_p99_s=_spread(np.concatenate([run.sent_s - run.scheduled_s for run in runs])[sent]).p99,
        duration_s=_mean(np.array([c.summary.duration_s if c.requests.ok.any() else np.nan for c in cells])),
    )


class _Pool:
    """Completed requests of all runs together."""

    def __init__(self, runs: list[Requests], ok: NDArray[np.bool_]) -> None:
        self.runs, self.ok = runs, ok

    def spread(self, name: str) -> Spread:
        return _spread(np.concatenate([getattr(run, name) for run in self.runs])[self.ok])


def _counts(runs: list[Requests]) -> Counts:
    status = np.concatenate([run.status for run in runs])
    of = {name: int((status == code).sum()) for code, name in enumerate(STATUSES)}
    return Counts(
        scheduled=len(status),
        sent=len(status) - of["not_sent"],
        scored=int(sum(run.scored.sum() for run in runs)),
        **of,
    )


def _decision(runs: list[Requests], sent: NDArray[np.bool_], ok: NDArray[np.bool_]) -> Decision:
    def together(name: str) -> Floats:
        return np.concatenate([getattr(run, name) for run in runs])

    size, ttft = together("batch_size")[sent], together("ttft_s")
    timed = ok & np.isfinite(ttft)
    batched = size[np.isfinite(size) & (size > 0)]
    return Decision(
        n=int(sent.sum()),
        scoring_wait_s=_mean(together("scoring_wait_s")[sent]),
        batch_wait_s=_mean(together("batch_wait_s")[sent]),
        encode_s=_mean(together("encode_s")[sent]),
        score_s=_mean(together("score_s")[sent]),
        # A batch of b requests stands in b rows: each counts for 1/b of a batch.
        batch_size=_share(len(batched), float((1 / batched).sum())),
        ttft_share=_share(float(together("decision_s")[timed].sum()), float(ttft[timed].sum())),
    )


def _spread(values: Floats) -> Spread:
    known = values[np.isfinite(values)]
    if not len(known):
        return Spread(0, np.nan, np.nan, np.nan, np.nan)
    p50, p95, p99 = np.percentile(known, [50, 95, 99])
    return Spread(len(known), float(known.mean()), float(p50), float(p95), float(p99))


def _mean(values: Floats) -> float:
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else float("nan")


def _share(part: float, whole: float) -> float:
    return float(part / whole) if whole > 0 else float("nan")


def _per_s(completed: float, span_s: float) -> float:
    """A rate over a span that is NaN where nothing completed: such a seed counts as 0, not as absent."""
    return _share(completed, span_s) if np.isfinite(span_s) else 0.0


def _shares(words: NDArray[np.str_]) -> dict[str, float]:
    names, counts = np.unique(words, return_counts=True)
    return {str(name): float(count / len(words)) for name, count in zip(names, counts, strict=True)}


def _span_s(run: Requests) -> float:
    """From the first send to the last completion."""
    if not run.ok.any():
        return float("nan")
    return float(np.nanmax(run.done_s[run.ok]) - np.nanmin(run.sent_s))


def _within_window(run: Requests) -> float:
    """Completions between the first and the last scheduled arrival, per second of that window."""
    return _share(int(run.ok_in_window.sum()), run.window_s)


def _rate(sent_s: Floats) -> float:
    known = sent_s[np.isfinite(sent_s)]
    return _share(len(known) - 1, float(known.max() - known.min())) if len(known) > 1 else float("nan")


def _busy_share(cell: Cell) -> float:
    busy = list(cell.summary.busy_s.values())
    return _share(sum(busy), len(busy) * cell.summary.duration_s)


def _tier_utilization(cells: Sequence[Cell]) -> dict[str, float]:
    """Mean busy share of the instances of each tier; an instance is named TIER/REPLICA."""
    busy: dict[str, list[float]] = {}
    for cell in cells:
        for name, seconds in cell.summary.busy_s.items():
            busy.setdefault(name.rpartition("/")[0] or name, []).append(
                _share(seconds, cell.summary.duration_s)
            )
    return {tier: _mean(np.array(shares)) for tier, shares in sorted(busy.items())}
