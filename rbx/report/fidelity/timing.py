"""Live requests beside their replays: three times each, and which of them may be compared."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rbx.sweep.compare.cell_run import CellRun
from rbx.sweep.compare.replay import Replayed

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

METRICS = ("ttft", "tpot", "e2e")
WORDS = {"ttft": "TTFT", "tpot": "TPOT", "e2e": "E2E"}


@dataclass(frozen=True)
class Timing:
    """N requests of one cell: ``live`` and ``replayed`` seconds by metric, each (N, 3), NaN where unknown.

    TTFT and E2E count from the dispatch, which the replay takes over from the live run; TPOT over the
    tokens after the first. ``compared`` (N,): completed on the first attempt, and replayed.
    """

    live: Floats
    replayed: Floats
    compared: Bools

    @property
    def relative(self) -> Floats:
        """Replayed ÷ live − 1, (N, 3); NaN where there is nothing to divide by."""
        live = np.where(self.live > 0, self.live, np.nan)
        return np.asarray(self.replayed / live - 1.0)


def timing(run: CellRun, replayed: Replayed) -> Timing:
    """Lay a cell and a replay of it side by side."""
    compared = run.ok & run.placed & (run.attempts == 1) & np.isfinite(replayed.done_s)
    live = _times(run, run.first_token_s, run.done_s)
    again = _times(run, replayed.first_token_s, replayed.done_s)
    known = compared[:, None] & np.isfinite(live) & np.isfinite(again)
    return Timing(np.where(known, live, np.nan), np.where(known, again, np.nan), compared)


def _times(run: CellRun, first_token_s: Floats, done_s: Floats) -> Floats:
    gaps = np.where(run.output_tokens >= 2, run.output_tokens - 1, np.nan)
    return np.column_stack(
        [first_token_s - run.dispatched_s, (done_s - first_token_s) / gaps, done_s - run.dispatched_s]
    )
