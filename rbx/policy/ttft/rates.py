"""Arrival and completion rates of each instance as a router can measure them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_WEIGHT = 0.2  # of the newest window
_WINDOW_S = 1.0


class Rates:
    """Events per second, an exponential average over windows of one second; (I,).

    Until ``least`` events of an instance have come, its rate is the prior.
    """

    def __init__(self, prior_per_s: Floats, least: int = 0) -> None:
        """``prior_per_s`` (I,) is what is assumed before anything was seen."""
        self._average = prior_per_s.copy()
        self._prior = prior_per_s
        self._least = least
        self._seen = np.zeros(len(prior_per_s), dtype=np.int64)
        self._in_window = np.zeros(len(prior_per_s))
        self._window_ends_s = _WINDOW_S

    def note(self, instance: int, at_s: float) -> None:
        """One event; times may not fall behind by more than the window under way."""
        self.move_to(at_s)
        self._seen[instance] += 1
        self._in_window[instance] += 1

    def move_to(self, now_s: float) -> None:
        """Close the windows that are over by ``now_s``."""
        over = int((now_s - self._window_ends_s) // _WINDOW_S) + 1
        if over <= 0:
            return
        self._average += _WEIGHT * (self._in_window / _WINDOW_S - self._average)
        self._average *= (1.0 - _WEIGHT) ** (over - 1)  # the other windows were empty
        self._in_window[:] = 0.0
        self._window_ends_s += over * _WINDOW_S

    @property
    def per_s(self) -> Floats:
        """The rates now, (I,)."""
        return np.where(self._seen >= self._least, self._average, self._prior)
