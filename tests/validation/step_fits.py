"""Prices of the six terms of feature set B: from composed steps, and scaled to a run's first seconds."""

from __future__ import annotations

from itertools import product

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from rbx.config.pool import StepTimeB
from rbx.heads.step_time.fit import nonnegative_fit
from tests.validation.operator_tables import OperatorTables
from tests.validation.recorded_run import RecordedRun
from tests.validation.replay import submitted

Floats = NDArray[np.float64]

PREFILL_TERMS = np.array([False, True, False, False, True, True])
FACTORS = np.arange(0.5, 1.5, 0.05)


def step_time_of(prices: Floats, source: str) -> StepTimeB:
    """Six prices in the order of the pool file's keys."""
    keys = [key for key in StepTimeB.model_fields if key not in ("feature_set", "source")]
    priced = dict(zip(keys, prices.tolist(), strict=True))
    return StepTimeB.model_validate({"feature_set": "B", "source": source, **priced})


def composed(tables: OperatorTables) -> tuple[StepTimeB, float]:
    """B fitted to composed steps by relative errors, and the mean size of those errors.

    Steps of 1 to 64 decodes of 512 to 1536 tokens each, and chunks of 128 to 2048 tokens, alone and beside
    32 decodes, at a prompt's start and behind 2048 computed tokens.
    """
    decodes = [(n, n * each, 0, 0) for n, each in product((1, 8, 16, 24, 32, 48, 64), (512, 1024, 1536))]
    sizes = (128, 256, 512, 1024, 1536, 2048)
    chunks = [(n, 1024 * n, size, c) for n, size, c in product((0, 32), sizes, (0, 2048))]
    steps = [*decodes, *chunks]
    seconds = np.array([tables.step_s(*step) for step in steps])
    columns = np.array([(1, size, n, context, size**2, size * c) for n, context, size, c in steps], float)
    prices = nonnegative_fit(columns, seconds, 1.0 / seconds)
    error = float(np.mean(np.abs(columns @ prices / seconds - 1.0)))
    return step_time_of(prices, "operator tables of an L40S, carried over by rooflines"), error


def scaled(run: RecordedRun, start: StepTimeB, until_s: float) -> tuple[StepTimeB, Floats]:
    """``start`` with its prices of prefill and all others times one factor each, and the two factors.

    They make ``distance_s`` least. Nothing that the run recorded later is looked at; lengths of answers
    are true ones.
    """
    prices = np.array(start.seconds)

    def of(factors: Floats) -> StepTimeB:
        other, prefill = np.exp(factors)
        return step_time_of(
            prices * np.where(PREFILL_TERMS, prefill, other), f"the run's first {until_s:.1f} s"
        )

    def distance(factors: Floats) -> float:
        return distance_s(run, of(factors), until_s)

    # The distance jumps where a batch changes: look everywhere first, then closely.
    best = min((np.log(pair) for pair in product(FACTORS, FACTORS)), key=distance)
    simplex = np.vstack([best, best + 0.04 * np.eye(2)])
    found = minimize(
        distance, best, method="Nelder-Mead", options={"initial_simplex": simplex, "xatol": 1e-4}
    ).x
    return of(found), np.exp(found)


def distance_s(run: RecordedRun, step_time: StepTimeB, until_s: float) -> float:
    """Mean distance of the replay's events from the recorded ones before ``until_s``, in seconds.

    Events are first and last tokens, and the tokens delivered by each tick of the log, whose difference
    counts as seconds of the mean rate. All may be late by one common delay, their median: the first
    steps of the run warm up and take twice as long as later ones of the same make-up.
    """
    engine = submitted(run, run.tier(step_time))
    ticks = run.tick_s < until_s
    recorded = np.cumsum(run.generated[ticks])
    delivered = []
    for tick_s in run.tick_s[ticks]:
        engine.advance(float(tick_s))
        to_come = engine.telemetry().pending_decode_tokens[0]
        delivered.append(run.output_tokens[run.arrival_s <= tick_s].sum() - to_come)
    # What comes later in the replay counts as this late at least.
    latest_s = 2.0 * until_s
    engine.advance(latest_s)
    late_s = [(recorded - np.array(delivered)) / (recorded[-1] / until_s)]
    for ours, theirs in ((engine.first_token_s, run.first_token_s), (engine.done_s, run.last_token_s)):
        seen = theirs < until_s
        late_s.append(np.nan_to_num(ours[seen], nan=latest_s) - theirs[seen])
    every_s = np.concatenate(late_s)
    return float(np.abs(every_s - np.median(every_s)).mean())
