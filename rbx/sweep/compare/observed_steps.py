"""Steps of live servers as rows that step times can be fitted to.

Stamps at a client are uncertain by about a millisecond, as steps are priced in milliseconds. So
as many consecutive steps are taken together as span ``WINDOW_S`` on average: a step-time model is a sum,
and the mean of some steps obeys it as one step does. What stamps are late by cancels but at the two ends.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rbx.config.pool import Tier
from rbx.heads.step_time.design import DECODE_ONLY, MIXED, Steps
from rbx.sweep.compare.cell_run import CellRun
from rbx.sweep.compare.chain import Chain, Stamps, chain_of
from rbx.sweep.compare.make_up import MakeUp, make_up

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

WINDOW_S = 0.025


@dataclass(frozen=True)
class ObservedSteps:
    """W windows of steps of one instance in one cell: means over each, and when it ended.

    ``rows`` (W, 6): seconds, prefill tokens, decodes, decode context, Σ chunk², Σ chunk·context;
    ``steps`` counts the steps that were told apart, ``answers`` and ``aligned`` those they were told from.
    """

    rows: Floats
    end_s: Floats
    steps: int
    answers: int
    aligned: int


def observe_steps(cell: CellRun, instance: int, tier: Tier) -> ObservedSteps:
    """Reconstruct what one instance of the pool did in a cell."""
    rows = np.flatnonzero(cell.placed & (cell.instance == instance) & np.isfinite(cell.first_token_s))
    rows = rows[np.isfinite(cell.done_s[rows]) & (cell.output_tokens[rows] >= 1)]
    if not len(rows):
        return ObservedSteps(np.zeros((0, 6)), np.zeros(0), 0, 0, 0)
    chain = chain_of([_stamps(cell, row) for row in rows.tolist()])
    found = make_up(
        chain, cell.dispatched_s[rows], cell.input_tokens[rows], cell.by_length[rows], tier.limits
    )
    windows, end_s = _windows(chain, found)
    return ObservedSteps(windows, end_s, len(chain.end_s), len(rows), int(chain.aligned.sum()))


def _stamps(cell: CellRun, row: int) -> Stamps:
    tokens_s = cell.tokens_s(row)
    if tokens_s is None:
        return Stamps(
            int(cell.output_tokens[row]), float(cell.first_token_s[row]), float(cell.done_s[row]), None
        )
    return Stamps(len(tokens_s), float(tokens_s[0]), float(tokens_s[-1]), tokens_s)


def _windows(chain: Chain, found: MakeUp) -> tuple[Floats, Floats]:
    columns = np.column_stack(
        [found.prefill_tokens, found.decodes, found.context, found.squared, found.cross]
    )
    end_s, usable = chain.end_s, found.linked & ~found.doubtful
    size = _window_size(end_s, usable)
    rows: list[Floats] = []
    ends: list[float] = []
    begin = 1  # the first step of the window under way
    for step in range(1, len(end_s)):
        if not usable[step]:
            begin = step + 1
        elif step + 1 - begin == size:
            span_s = end_s[step] - end_s[begin - 1]
            begin, taken = step + 1, slice(begin, step + 1)
            if span_s > 0.0:
                rows.append(np.concatenate([[span_s / size], columns[taken].mean(axis=0)]))
                ends.append(float(end_s[step]))
    return np.array(rows).reshape(-1, 6), np.array(ends)


def _window_size(end_s: Floats, usable: NDArray[np.bool_]) -> int:
    """Steps that span ``WINDOW_S`` on average: a window that ended once it did would end on late stamps."""
    lengths = np.diff(end_s)[usable[1:]]
    mean_s = float(lengths.mean()) if len(lengths) else WINDOW_S
    return max(1, int(np.ceil(WINDOW_S / max(mean_s, 1e-6))))


def as_steps(observed: list[tuple[ObservedSteps, Ints]]) -> Steps:
    """All windows of one tier with the block of time that each lies in, to be fitted."""
    rows = np.concatenate([found.rows for found, _ in observed])
    return Steps(
        seconds=rows[:, 0],
        prefill_tokens=rows[:, 1],
        decodes=rows[:, 2],
        sums=rows[:, 3:],
        block=np.concatenate([block for _, block in observed]),
        kind=np.where(rows[:, 1] == 0, DECODE_ONLY, MIXED),
    )
