"""Snapshots of a pool counted into telemetry: what ``rbx.engine.snapshot`` counts from the engine itself."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rbx.compiled import njit
from rbx.engine import snapshot_columns as snap
from rbx.engine.instance_snapshot import InstanceSnapshot
from rbx.engine.state import Floats, Ints
from rbx.engine.telemetry import PoolTelemetry

# Columns of a load: what telemetry says of one instance, but for time, size and what it has received.
RUNNING = 0
WAITING = 1
PREFILL = 2
DECODE = 3
CONTEXT = 4
FREE_BLOCKS = 5

N_LOAD = 6


def pool_telemetry(
    snapshots: Sequence[InstanceSnapshot], received: Ints, stamp_s: Floats | None = None
) -> PoolTelemetry:
    """Telemetry of I instances from a snapshot of each.

    ``received`` (I,) no snapshot knows. ``stamp_s`` (I,) are the snapshots' own unless given.
    """
    loads = np.empty((len(snapshots), N_LOAD), dtype=np.int64)
    for i, snapshot in enumerate(snapshots):
        count(snapshot, loads[i])
    stamps_s = np.array([snapshot.stamp_s for snapshot in snapshots]) if stamp_s is None else stamp_s
    total_blocks = np.array([snapshot.profile.limits.kv_blocks for snapshot in snapshots], dtype=np.int64)
    return load_telemetry(loads, total_blocks, received, stamps_s)


def load_telemetry(loads: Ints, total_blocks: Ints, received: Ints, stamp_s: Floats) -> PoolTelemetry:
    """Telemetry of I instances from their ``loads`` (I, N_LOAD), which are copied."""
    columns = loads.T.copy()
    return PoolTelemetry(
        stamp_s=stamp_s,
        running=columns[RUNNING],
        waiting=columns[WAITING],
        pending_prefill_tokens=columns[PREFILL],
        pending_decode_tokens=columns[DECODE],
        decode_context_tokens=columns[CONTEXT],
        free_blocks=columns[FREE_BLOCKS],
        total_blocks=total_blocks,
        received=received,
    )


def count(snapshot: InstanceSnapshot, load: Ints) -> None:
    """Count a snapshot into ``load`` (N_LOAD,)."""
    load[RUNNING], load[FREE_BLOCKS] = snapshot.running, snapshot.free_blocks
    _count(snapshot.requests, snapshot.running, load)


@njit(cache=True)
def _count(requests: Ints, running: int, load: Ints) -> None:
    prefill, decode, context = 0, 0, 0
    for k in range(len(requests)):
        row = requests[k]
        decode += max(0, row[snap.PREDICTED] - row[snap.GENERATED])
        if k >= running or row[snap.PREFILLING]:
            prefill += row[snap.PROMPT] + row[snap.GENERATED] - row[snap.COMPUTED]
        else:
            context += row[snap.COMPUTED]
    load[WAITING], load[PREFILL], load[DECODE], load[CONTEXT] = (
        len(requests) - running,
        prefill,
        decode,
        context,
    )
