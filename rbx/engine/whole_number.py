"""Counts that come from outside: whole numbers, no smaller than they may be."""

from __future__ import annotations

from typing import Any

import numpy as np

from rbx.errors import EngineError

LARGEST = 1 << 52  # sums of some thousands of such numbers still fit an int64


def check_whole(owner: Any, **least: int) -> None:
    """Refuse attributes of ``owner`` that are no whole number from their least value up.

    Raises ``EngineError`` with the name of the attribute. A bool is no number here.
    """
    for name, lowest in least.items():
        value = getattr(owner, name)
        if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)):
            raise EngineError(f"{name} is {value!r}; it must be a whole number")
        if not lowest <= value <= LARGEST:
            raise EngineError(f"{name} is {value}; it must be at least {lowest} and at most {LARGEST:,}")
