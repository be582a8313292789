"""Completions and output tokens a second, live and replayed, over the same window."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rbx.sweep.compare.cell_run import CellRun
from rbx.sweep.compare.replay import Replayed

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class ThroughputRow:
    """Of one cell: within its arrival window, and from the first send to the last completion.

    Requests that completed live and were replayed; output tokens go with the completion.
    """

    source: str
    cell_id: str
    label: str
    rate_per_s: float
    seed: int
    n: int
    live_window_per_s: float
    replayed_window_per_s: float
    live_tokens_per_s: float
    replayed_tokens_per_s: float

    @property
    def window_error(self) -> float:
        """Replayed ÷ live − 1 of completions within the window."""
        return _relative(self.replayed_window_per_s, self.live_window_per_s)

    @property
    def tokens_error(self) -> float:
        """Replayed ÷ live − 1 of output tokens a second to the last completion."""
        return _relative(self.replayed_tokens_per_s, self.live_tokens_per_s)


def throughput_rows(
    source: str, runs: Sequence[CellRun], replays: Sequence[Replayed]
) -> tuple[ThroughputRow, ...]:
    """One row a cell; every request of a cell counts, whatever a fit was made from."""
    return tuple(_row(source, run, again) for run, again in zip(runs, replays, strict=True))


def _row(source: str, run: CellRun, again: Replayed) -> ThroughputRow:
    both = run.ok & np.isfinite(again.done_s) & np.isfinite(run.done_s)
    begin_s = float(np.nanmin(run.sent_s, initial=np.inf))
    end_s = float(run.scheduled_s.max())
    tokens = run.output_tokens[both]

    def per_s(done_s: Floats) -> tuple[float, float]:
        known = done_s[both]
        if not len(known):
            return float("nan"), float("nan")
        window_s, span_s = end_s - run.scheduled_s.min(), known.max() - begin_s
        within = float((known <= end_s).sum())
        return _share(within, float(window_s)), _share(float(tokens.sum()), float(span_s))

    live, replayed = per_s(run.done_s), per_s(again.done_s)
    return ThroughputRow(
        source=source,
        cell_id=run.spec.cell_id,
        label=run.spec.label,
        rate_per_s=run.spec.rate_per_s,
        seed=run.spec.seed,
        n=int(both.sum()),
        live_window_per_s=live[0],
        replayed_window_per_s=replayed[0],
        live_tokens_per_s=live[1],
        replayed_tokens_per_s=replayed[1],
    )


def _share(part: float, whole: float) -> float:
    return part / whole if whole > 0 else float("nan")


def _relative(replayed: float, live: float) -> float:
    return replayed / live - 1.0 if live > 0 else float("nan")
