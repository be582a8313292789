"""How far replayed times are from recorded ones, by the length of the queue that a request met."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import spearmanr

from tests.validation.recorded_run import RecordedRun
from tests.validation.replay import Served

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

# Requests waiting at arrival in the recorded run: the cache fills up, then the queue grows.
BANDS = ((0, 0), (1, 19), (20, 99), (100, 199), (200, 299))
METRICS = ("TTFT", "TPOT", "E2E")


@dataclass(frozen=True)
class Errors:
    """Of N requests; relative errors in per cent of the recorded time, ``absolute_ms`` their mean size."""

    n: int
    mape: float
    median: float
    p90: float
    bias: float
    absolute_ms: float
    spearman: float

    @classmethod
    def of(cls, ours_s: Floats, theirs_s: Floats) -> Errors:
        """Replayed against recorded times, (N,)."""
        relative = 100.0 * (ours_s / theirs_s - 1.0)
        size = np.abs(relative)
        return cls(
            len(relative),
            float(size.mean()),
            float(np.median(size)),
            float(np.quantile(size, 0.9)),
            float(relative.mean()),
            1000.0 * float(np.abs(ours_s - theirs_s).mean()),
            float(spearmanr(ours_s, theirs_s).statistic),
        )


def times_s(run: RecordedRun, first_token_s: Floats, last_token_s: Floats) -> dict[str, Floats]:
    """TTFT and E2E from the client's arrival, TPOT over the tokens after the first; each (N,)."""
    tpot_s = (last_token_s - first_token_s) / (run.output_tokens - 1)
    return dict(
        zip(METRICS, (first_token_s - run.arrival_s, tpot_s, last_token_s - run.arrival_s), strict=True)
    )


def by_band(run: RecordedRun, replayed: Served, chosen: Mask) -> Iterator[tuple[str, str, Errors]]:
    """(band, metric, errors) of the requests ``chosen`` (N,), each band with two or more and all together."""
    theirs = times_s(run, run.first_token_s, run.last_token_s)
    ours = times_s(run, replayed.first_token_s, replayed.last_token_s)
    waiting = run.waiting_at_arrival
    bands = [(f"{low}–{high}" if high else "0", (waiting >= low) & (waiting <= high)) for low, high in BANDS]
    for name, mask in [*bands, ("all", np.ones(len(waiting), dtype=bool))]:
        rows = chosen & mask
        if rows.sum() > 1:
            for metric in METRICS:
                yield name, metric, Errors.of(ours[metric][rows], theirs[metric][rows])
