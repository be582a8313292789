"""Which cells keep up with their arrivals: the latency of one that does not grows with the run's length.

The rule is that of ``rbx.sweep.sustained``, with an answer only where the cell can give one.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from rbx.report.requests import Requests
from rbx.sweep.sustained import is_sustained, late_arrivals

# The share completed varies by up to about 1/√n: from here on by less than the 5 % it may fall short.
FEWEST_LATE_ARRIVALS = 400
# A pool that starts empty completes less than arrives until its batches are full.
FILLED_AFTER_DECODES = 12

OVERLOADED_MARK = "†"
OVERLOADED_WORDS = "does not keep up with arrivals; its latency grows with the length of the run"
UNTOLD_MARK = "?"
UNTOLD_WORDS = (
    "can't be told whether it keeps up: too few arrivals, or too short a window; its latency may grow too"
)


def keeps_up(requests: Requests) -> bool | None:
    """Whether one cell sustains its arrival rate; None where that can't be told.

    It can't with fewer than ``FEWEST_LATE_ARRIVALS`` in the second half of the arrival window. In a
    window shorter than ``FILLED_AFTER_DECODES`` mean times from first to last token, completions may
    fall short for the filling of the batches alone: only where first tokens fall short too, a queue
    grows. A failed request counts as not completed.
    """
    scheduled_s, ok = requests.scheduled_s, requests.ok
    if late_arrivals(scheduled_s) < FEWEST_LATE_ARRIVALS:
        return None
    if is_sustained(scheduled_s, np.where(ok, requests.done_s, np.nan)):
        return True
    decode_s = (requests.done_s - requests.first_token_s)[ok & np.isfinite(requests.first_token_s)]
    filled = len(decode_s) > 0 and scheduled_s.max() >= FILLED_AFTER_DECODES * float(decode_s.mean())
    if filled or not is_sustained(scheduled_s, np.where(ok, requests.first_token_s, np.nan)):
        return False
    return None


def all_keep_up(sustained: Iterable[bool | None]) -> bool | None:
    """Seeds together: False where one does not keep up, None where no seed could be judged."""
    judged = {answer for answer in sustained if answer is not None}
    return None if not judged else judged == {True}
