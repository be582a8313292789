"""Snapshots of a pool counted into telemetry: what ``rbx.engine.snapshot`` counts from the engine itself."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rbx.compiled import njit
from rbx.engine import snapshot_columns as snap
from rbx.engine.instance_snapshot import InstanceSnapshot
from rbx.engine.state import Floats, Ints
from rbx.engine.telemetry import PoolTelemetry


def pool_telemetry(
    snapshots: Sequence[InstanceSnapshot], received: Ints, stamp_s: Floats | None = None
) -> PoolTelemetry:
    """Telemetry of I instances from a snapshot of each.

    ``received`` (I,) no snapshot knows. ``stamp_s`` (I,) are the snapshots' own unless given.
    """
    sums = np.empty((len(snapshots), 4), dtype=np.int64)
    for i, snapshot in enumerate(snapshots):
        _count(snapshot.requests, snapshot.running, sums[i])
    stamps = [snapshot.stamp_s for snapshot in snapshots]
    return PoolTelemetry(
        stamp_s=np.array(stamps) if stamp_s is None else stamp_s,
        running=np.array([snapshot.running for snapshot in snapshots], dtype=np.int64),
        waiting=sums[:, 0],
        pending_prefill_tokens=sums[:, 1],
        pending_decode_tokens=sums[:, 2],
        decode_context_tokens=sums[:, 3],
        free_blocks=np.array([snapshot.free_blocks for snapshot in snapshots], dtype=np.int64),
        total_blocks=np.array([snapshot.profile.limits.kv_blocks for snapshot in snapshots], dtype=np.int64),
        received=received,
    )


@njit(cache=True)
def _count(requests: Ints, running: int, sums: Ints) -> None:
    """Waiting requests, pending prefill and decode tokens, decode context, into ``sums`` (4,)."""
    prefill, decode, context = 0, 0, 0
    for k in range(len(requests)):
        row = requests[k]
        decode += max(0, row[snap.PREDICTED] - row[snap.GENERATED])
        if k >= running or row[snap.PREFILLING]:
            prefill += row[snap.PROMPT] + row[snap.GENERATED] - row[snap.COMPUTED]
        else:
            context += row[snap.COMPUTED]
    sums[0], sums[1], sums[2], sums[3] = len(requests) - running, prefill, decode, context
