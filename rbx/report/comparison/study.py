"""Compare two sweeps: match their points, refuse what can't be paired, take every difference."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from rbx.errors import StoreError
from rbx.report.comparison.match import Couple, Matched, match
from rbx.report.comparison.settings import Setting, differing
from rbx.report.engine import kinds
from rbx.report.interval import Interval
from rbx.report.load import Sweep, read_sweep
from rbx.report.measured.estimate import difference
from rbx.report.measured.metric import METRICS, Metric
from rbx.report.measured.sample import Asked, draw
from rbx.report.measured.site import sites
from rbx.report.paired import Resampling

COMPARED = (
    "quality",
    "mean_e2e_s",
    "p99_e2e_s",
    "mean_ttft_s",
    "p99_ttft_s",
    "cost_per_request_usd",
    "throughput_per_s",
    "completed_share",
    "slo_met_share",
    "on_time_utility",
    "exhausted_share",
)
_SHOWN = 5


@dataclass(frozen=True)
class Gap:
    """One metric of one policy at one rate in both sweeps; ``gap`` is B − A."""

    couple: Couple
    metric: Metric
    a: float
    b: float
    gap: Interval


@dataclass(frozen=True)
class Comparison:
    """Two sweeps, and every difference between them; metrics that tell nothing are left out."""

    a: Sweep
    b: Sweep
    matched: Matched
    metrics: tuple[Metric, ...]
    gaps: tuple[Gap, ...]
    settings: tuple[Setting, ...]
    resampling: Resampling

    @property
    def kinds(self) -> tuple[str, ...]:
        """What served the requests of either."""
        return tuple(dict.fromkeys([*kinds(self.a), *kinds(self.b)]))

    @property
    def rates_per_s(self) -> list[float]:
        """Rates at which something is compared, ascending."""
        return sorted({couple.a.point.rate_per_s for couple in self.matched.couples})


def compare(folder_a: Path, folder_b: Path, resampling: Resampling) -> Comparison:
    """Read both sweeps and compare them.

    Raises ``StoreError`` where one can't be read, where two cells of the same policy, rate and seed did
    not face the same requests (naming both hashes and what differs), and where they share no cell.
    """
    a, b = read_sweep(folder_a), read_sweep(folder_b)
    numbered = sites({"A": a, "B": b})
    matched = match(numbered["A"], numbered["B"])
    if matched.clashes:
        raise StoreError(_refusal(folder_a, folder_b, a, b, matched))
    if not matched.couples:
        raise StoreError(f"{folder_a} and {folder_b} share no policy at the same rate or load")
    every = [METRICS[name] for name in COMPARED]
    samples = draw(
        (
            Asked(point, metric, 0)
            for couple in matched.couples
            for point in (couple.a, couple.b)
            for metric in every
        ),
        resampling,
    )
    gaps = []
    for couple in matched.couples:
        for metric in every:
            one, other = (samples[Asked(point, metric, 0).key] for point in (couple.a, couple.b))
            gaps.append(Gap(couple, metric, one.value, other.value, difference(other, one)))
    known = [metric for metric in every if _is_told(metric, gaps)]
    return Comparison(
        a,
        b,
        matched,
        tuple(known),
        tuple(gap for gap in gaps if gap.metric in known),
        tuple(differing(a.manifest, b.manifest)),
        resampling,
    )


def _is_told(metric: Metric, gaps: list[Gap]) -> bool:
    """Whether some point has the metric; a share that is everywhere as good as can be tells nothing."""
    mine = [gap for gap in gaps if gap.metric is metric]
    values = {value for gap in mine for value in (gap.a, gap.b) if not math.isnan(value)}
    return bool(values) and not (
        metric.quantity == "share" and values == {float(bool(metric.higher_is_better))}
    )


def _refusal(folder_a: Path, folder_b: Path, a: Sweep, b: Sweep, matched: Matched) -> str:
    shown = "".join(f"\n  {line}" for line in matched.clashes[:_SHOWN])
    more = len(matched.clashes) - _SHOWN
    shown += f"\n  and {more} more" if more > 0 else ""
    asked = [
        each
        for each in differing(a.manifest, b.manifest)
        if each.key.startswith(("config.workload", "grid.digest", "capacity"))
    ]
    told = "".join(f"\n  {each.key}: {each.a or 'none'} in A, {each.b or 'none'} in B" for each in asked)
    return (
        f"{folder_a} (A) and {folder_b} (B) can't be compared: the same policies faced other requests, so "
        f"that nothing is paired:{shown}"
        + (f"\nSettings that decide on the workload and differ:{told}" if told else "")
        + "\nRun both on one workload: the same grid, split, rates, seeds, arrivals, budgets and targets"
    )
