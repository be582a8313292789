"""What an instance shows of itself: the one type that simulator, shadow state and plugins fill."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class PoolTelemetry:
    """A snapshot of every instance; each array has shape (instances,).

    ``pending_decode_tokens`` counts *predicted* remaining output: of waiting requests the whole
    prediction, of running ones max(0, prediction − generated). True lengths never stand here.
    ``received`` is the number of requests the instance has taken in since it started, so that a
    scheduler knows which of its dispatches a snapshot does not show yet.
    """

    stamp_s: Floats
    running: Ints
    waiting: Ints
    pending_prefill_tokens: Ints
    pending_decode_tokens: Ints
    decode_context_tokens: Ints
    free_blocks: Ints
    total_blocks: Ints
    received: Ints


TPOT_FEATURES = (
    "running",
    "waiting",
    "pending_prefill_tokens",
    "pending_decode_tokens",
    "decode_context_tokens",
    "kv_utilization",
)


def tpot_features(telemetry: PoolTelemetry) -> Floats:
    """Inputs of the TPOT heads, shape (instances, len(TPOT_FEATURES)), in that order."""
    used = 1.0 - telemetry.free_blocks / telemetry.total_blocks
    return np.column_stack(
        [
            telemetry.running,
            telemetry.waiting,
            telemetry.pending_prefill_tokens,
            telemetry.pending_decode_tokens,
            telemetry.decode_context_tokens,
            used,
        ]
    ).astype(np.float64)
