"""What the heads say about prompts: quality and output length for each model."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

N_LENGTH_BUCKETS = 16
LENGTH_BUCKET_TOKENS = 64


@dataclass(frozen=True)
class Predictions:
    """Predictions for P prompts and M models, in the bundle's model order.

    ``quality`` (P, M) in [0, 1]; ``length_tokens`` (P, M), at least 1; ``length_histogram``
    (P, M, 16): neighbour weight per 64-token bucket, the last one open-ended, each row sums to 1.
    """

    models: tuple[str, ...]
    quality: NDArray[np.float64]
    length_tokens: NDArray[np.float64]
    length_histogram: NDArray[np.float64]
