"""Whether a cell completes what arrives, judged over the second half of its arrival window."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

SUSTAINED_SHARE = 0.95


def is_sustained(scheduled_s: Floats, done_s: Floats) -> bool:
    """Whether completions keep up with arrivals in the second half of the arrival window.

    Both have shape (N,), one row a request, and count seconds from the start of the window; ``done_s``
    is NaN where nothing completed. At least ``SUSTAINED_SHARE`` of what arrives must complete. Few
    arrivals make the answer noisy: with n of them the share completed varies by about 1/√n.
    """
    end_s = scheduled_s.max()
    completed = np.sum((done_s > end_s / 2) & (done_s <= end_s))
    return bool(completed >= SUSTAINED_SHARE * late_arrivals(scheduled_s))


def late_arrivals(scheduled_s: Floats) -> int:
    """How many requests arrive in the second half of the arrival window: what the answer rests on."""
    return int(np.sum(scheduled_s > scheduled_s.max() / 2))
