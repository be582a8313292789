"""A live cell's decisions in the engine: the same requests at the same servers at the same moments."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rbx.config.pool import Tier
from rbx.engine.simulator import EngineSim
from rbx.sweep.compare.cell_run import CellRun

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Replayed:
    """Times of N requests as a client would see them, in seconds from the cell's start; NaN: not replayed.

    ``misfit`` marks requests that no instance of the pool file could hold.
    """

    first_token_s: Floats
    done_s: Floats
    misfit: Bools


def replay(cell: CellRun, tiers: tuple[Tier, ...], network_s: float, outside_s: Floats) -> Replayed:
    """Run the cell's placed requests on ``tiers``, one for each instance.

    Each arrives ``network_s`` after it was dispatched; its tokens are at the client ``network_s`` +
    ``outside_s`` (instances,) after their step. Lengths are those that were delivered; a request that
    failed is a load with the tokens that it got, at least one.
    """
    room = np.array([tier.limits.max_model_len for tier in tiers])[cell.instance] - cell.input_tokens
    output = np.maximum(cell.output_tokens, 1)
    misfit = cell.placed & (output > room)
    rows = np.flatnonzero(cell.placed & ~misfit)
    engine = EngineSim(tiers, len(rows))
    slots = engine.submit_many(
        cell.instance[rows],
        cell.dispatched_s[rows] + network_s,
        cell.input_tokens[rows],
        output[rows],
        output[rows],
        cell.by_length[rows] | ~cell.ok[rows],
    )
    engine.drain()
    back_s = network_s + outside_s[cell.instance[rows]]
    first_token_s, done_s = (np.full(len(cell), np.nan) for _ in range(2))
    first_token_s[rows] = engine.first_token_s[slots] + back_s
    done_s[rows] = engine.done_s[slots] + back_s
    return Replayed(first_token_s, done_s, misfit)


def time_outside_s(cell: CellRun, replayed: Replayed, fitted_on: Bools, n_instances: int) -> list[Floats]:
    """What first tokens came later than replayed, by instance, of ok requests in ``fitted_on`` (N,)."""
    late_s = cell.first_token_s - replayed.first_token_s
    known = cell.ok & fitted_on & np.isfinite(late_s)
    return [late_s[known & (cell.instance == instance)] for instance in range(n_instances)]
