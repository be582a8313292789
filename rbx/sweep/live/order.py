"""In which order live cells are run: servers drift over hours, and no policy may profit from it.

Cells of one rate and seed form a block, as their workload is the same. The blocks are shuffled, and the
policies within each: a randomised complete block design, so that what is compared stands close together in
time and which comes first is left to chance.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rbx.sweep.store import CellSpec

_BLOCKS, _POLICIES = 1, 2


def interleaved(cells: Sequence[CellSpec]) -> tuple[CellSpec, ...]:
    """The cells in randomised complete blocks; the same cells give the same order, finished or not."""
    blocks: dict[tuple[float, int], list[CellSpec]] = {}
    for cell in cells:
        blocks.setdefault((cell.rate_per_s, cell.seed), []).append(cell)
    keys = sorted(blocks)
    shuffled = np.random.default_rng([_BLOCKS, len(keys)]).permutation(len(keys))
    ordered: list[CellSpec] = []
    for place in shuffled:
        block = sorted(blocks[keys[place]], key=lambda cell: cell.label)
        turn = np.random.default_rng([_POLICIES, int(place)]).permutation(len(block))
        ordered += [block[position] for position in turn]
    return tuple(ordered)
