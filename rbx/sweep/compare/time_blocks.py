"""Stretches of time of a sweep's cells, half of which are held out from fitting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rbx.errors import UsageError
from rbx.sweep.compare.cell_run import CellRun

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

LONGEST_BLOCK_S = 10.0
FEWEST_BLOCKS = 16
_HELD_OUT = 0.5


@dataclass(frozen=True)
class TimeBlocks:
    """Blocks of ``block_s`` seconds, numbered through all cells; ``held_out`` (blocks,) are judged on.

    ``first`` (cells + 1,) says where each cell's begin.
    """

    block_s: float
    first: Ints
    held_out: Bools

    def of(self, cell: int, at_s: Floats) -> Ints:
        """The block of each moment (N,) of a cell; what lies beyond its ends counts to them."""
        last = self.first[cell + 1] - self.first[cell] - 1
        within = np.clip(np.floor(np.nan_to_num(at_s) / self.block_s), 0, last)
        return np.asarray(self.first[cell] + within.astype(np.int64))

    def judged(self, cell: int, at_s: Floats) -> Bools:
        """Whether each moment (N,) of a cell lies in a block that is held out."""
        return np.asarray(self.held_out[self.of(cell, at_s)])


def divide(cells: Sequence[CellRun], seed: int, block_s: float | None) -> TimeBlocks:
    """Blocks of ten seconds, or shorter ones where a sweep would have fewer than ``FEWEST_BLOCKS``.

    Half of all blocks are drawn, so that both halves have cells of every kind. Raises ``UsageError`` for a
    length that is not above zero.
    """
    if block_s is not None and not 0.0 < block_s < np.inf:
        raise UsageError(f"block_s is {block_s:g}; it must be a finite number of seconds above 0")
    spans_s = [float(np.nanmax(cell.done_s, initial=cell.scheduled_s[-1])) for cell in cells]
    length_s = block_s or min(LONGEST_BLOCK_S, sum(spans_s) / FEWEST_BLOCKS)
    counts = [max(1, int(np.ceil(span_s / length_s))) for span_s in spans_s]
    first = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    total = int(first[-1])
    held_out = np.zeros(total, dtype=np.bool_)
    drawn = np.random.default_rng([seed, 11]).choice(total, round(_HELD_OUT * total), replace=False)
    held_out[drawn] = True
    return TimeBlocks(length_s, first, held_out)
