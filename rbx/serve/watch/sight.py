"""The whole pool as a gateway sees it at one moment."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rbx.engine.instance_snapshot import InstanceSnapshot
from rbx.engine.telemetry import PoolTelemetry
from rbx.heads.bea.unseen import UnseenRequests

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class PoolSight:
    """I instances at ``now_s``; hand ``telemetry``, ``snapshots`` and ``unseen`` to ``decide`` together.

    ``snapshots`` is empty where nobody asked for them.

    ``telemetry.stamp_s`` is ``now_s`` − ``age_s``, and ``age_s`` (I,) how long ago the instance itself
    was last heard of by what the state rests on: its published state, or gauges and tokens. ``rungs`` names
    that source. ``telemetry.received`` counts our dispatches less those in ``unseen``. ``in_flight`` (I,)
    counts our requests there, ``ready`` (I,) says who may be sent more.
    """

    now_s: float
    telemetry: PoolTelemetry
    snapshots: tuple[InstanceSnapshot, ...]
    unseen: tuple[UnseenRequests, ...]
    rungs: tuple[str, ...]
    age_s: Floats
    ready: Bools
    in_flight: Ints
