"""How long live answers were, by prompt and model: given to the simulator in place of the grid's lengths."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from rbx.config.pool import Pool
from rbx.sweep.compare.cell_run import CellRun
from rbx.sweep.prompts import PromptTable
from rbx.sweep.workload import Arriving

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class DeliveredLengths:
    """A prompt table with delivered lengths, and which of its (P, M) were really seen."""

    prompts: PromptTable
    seen: NDArray[np.bool_]


def delivered_lengths(
    prompts: PromptTable, pool: Pool, runs: Sequence[CellRun], arriving: Sequence[Arriving]
) -> DeliveredLengths:
    """Median delivered length of each prompt and model, over all cells.

    A pair that was never served has the grid's length times what the model's delivered lengths are of the
    grid's, on average. An answer that its cap cut off would have been longer: as long as the grid says, or
    by a token, so that it is cut again.
    """
    shape = prompts.output_tokens.shape
    model_of = np.array([instance.model_index for instance in pool.instances])
    pairs, tokens = [], []
    for run, workload in zip(runs, arriving, strict=True):
        rows = np.flatnonzero(run.ok & (run.instance >= 0) & (run.output_tokens >= 1))
        at = (workload.prompt[run.request[rows]], model_of[run.instance[rows]])
        pairs.append(np.ravel_multi_index(at, shape))
        cut_at = np.maximum(run.output_tokens[rows] + 1, prompts.output_tokens[at])
        tokens.append(np.where(run.by_length[rows], cut_at, run.output_tokens[rows]))
    delivered, seen = _medians(np.concatenate(pairs), np.concatenate(tokens), shape)
    grid = prompts.output_tokens
    known = np.where(seen, grid, 0).sum(axis=0)
    ratio = np.where(known > 0, np.where(seen, delivered, 0).sum(axis=0) / np.maximum(known, 1), 1.0)
    guessed = np.maximum(np.rint(grid * ratio), 1).astype(np.int64)
    return DeliveredLengths(replace(prompts, output_tokens=np.where(seen, delivered, guessed)), seen)


def _medians(pair: Ints, tokens: Ints, shape: tuple[int, ...]) -> tuple[Ints, NDArray[np.bool_]]:
    """The lower median of ``tokens`` by pair, as a table of ``shape``, and where there is one."""
    order = np.lexsort((tokens, pair))
    found, begin, count = np.unique(pair[order], return_index=True, return_counts=True)
    medians = np.zeros(shape, dtype=np.int64)
    seen = np.zeros(shape, dtype=np.bool_)
    medians.ravel()[found] = tokens[order][begin + (count - 1) // 2]
    seen.ravel()[found] = True
    return medians, seen
