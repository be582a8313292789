"""Steps of live servers as rows that step times can be fitted to.

Stamps at a client are uncertain by a millisecond, on a busy machine by far more, and steps are priced in
milliseconds. So consecutive steps are taken together to windows: a step-time model is a sum, and the mean
of some steps obeys it as one step does. What stamps are late by cancels out but at a window's two ends.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rbx.config.pool import Tier
from rbx.heads.step_time.design import DECODE_ONLY, MIXED, Steps
from rbx.sweep.compare.cell_run import CellRun
from rbx.sweep.compare.chain import Stamps, chain_of
from rbx.sweep.compare.make_up import make_up

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

SHORTEST_WINDOW_S = 0.025


@dataclass(frozen=True)
class Windows:
    """W windows: ``rows`` (W, 6) are means of seconds, prefill tokens, decodes, context, Σ n² and Σ n·c.

    ``end_s`` (W,) says when each ended.
    """

    rows: Floats
    end_s: Floats


@dataclass(frozen=True)
class ObservedSteps:
    """What was found of one instance in one cell, from ``answers``, ``aligned`` of which for certain.

    ``end_s`` (S,) ends every step, ``columns`` (S, 5) is its make-up as in ``Windows``; ``usable`` (S,) says
    that its length and make-up are known.
    """

    end_s: Floats
    columns: Floats
    usable: NDArray[np.bool_]
    answers: int
    aligned: int

    def windows(self, window_s: float) -> Windows:
        """As many usable steps together as span ``window_s`` on average, one after the other.

        A window that ended once it spanned that would end on late stamps more often than not.
        """
        size = self._size(window_s)
        rows: list[Floats] = []
        ends: list[float] = []
        begin = 1  # the first step of the window under way
        for step in range(1, len(self.end_s)):
            if not self.usable[step]:
                begin = step + 1
            elif step + 1 - begin == size:
                span_s = self.end_s[step] - self.end_s[begin - 1]
                begin, taken = step + 1, slice(begin, step + 1)
                if span_s > 0.0:
                    rows.append(np.concatenate([[span_s / size], self.columns[taken].mean(axis=0)]))
                    ends.append(float(self.end_s[step]))
        return Windows(np.array(rows).reshape(-1, 6), np.array(ends))

    def _size(self, window_s: float) -> int:
        lengths_s = np.diff(self.end_s)[self.usable[1:]]
        mean_s = float(lengths_s.mean()) if len(lengths_s) else window_s
        return max(1, int(np.ceil(window_s / max(mean_s, 1e-6))))


def observe_steps(cell: CellRun, instance: int, tier: Tier) -> ObservedSteps:
    """Reconstruct what one instance of the pool did in a cell."""
    rows = np.flatnonzero(cell.placed & (cell.instance == instance) & np.isfinite(cell.first_token_s))
    rows = rows[np.isfinite(cell.done_s[rows]) & (cell.output_tokens[rows] >= 1)]
    if not len(rows):
        return ObservedSteps(np.zeros(0), np.zeros((0, 5)), np.zeros(0, dtype=np.bool_), 0, 0)
    chain = chain_of([_stamps(cell, row) for row in rows.tolist()])
    found = make_up(
        chain, cell.dispatched_s[rows], cell.input_tokens[rows], cell.by_length[rows], tier.limits
    )
    columns = [found.prefill_tokens, found.decodes, found.context, found.squared, found.cross]
    return ObservedSteps(
        chain.end_s,
        np.column_stack(columns),
        found.linked & ~found.doubtful,
        len(rows),
        int(chain.aligned.sum()),
    )


def _stamps(cell: CellRun, row: int) -> Stamps:
    tokens_s = cell.tokens_s(row)
    if tokens_s is None:
        return Stamps(
            int(cell.output_tokens[row]), float(cell.first_token_s[row]), float(cell.done_s[row]), None
        )
    return Stamps(len(tokens_s), float(tokens_s[0]), float(tokens_s[-1]), tokens_s)


def as_steps(windows: list[tuple[Windows, Ints]]) -> Steps:
    """Windows of one tier with the block of time that each lies in, to be fitted."""
    rows = np.concatenate([found.rows for found, _ in windows])
    return Steps(
        seconds=rows[:, 0],
        prefill_tokens=rows[:, 1],
        decodes=rows[:, 2],
        sums=rows[:, 3:],
        block=np.concatenate([block for _, block in windows]),
        kind=np.where(rows[:, 1] == 0, DECODE_ONLY, MIXED),
    )
