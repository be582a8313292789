"""Model names in the order a reader expects: numbers inside them compare as numbers."""

from __future__ import annotations

import re
from collections.abc import Iterable

_NUMBER = re.compile(r"(\d+(?:\.\d+)?)")


def natural_order(names: Iterable[str]) -> list[str]:
    """Sorted distinct names, ``Qwen2.5-7B`` before ``Qwen2.5-14B``."""
    return sorted(set(names), key=lambda name: (_parts(name), name))


def _parts(name: str) -> list[tuple[int, float, str]]:
    pieces = _NUMBER.split(name.lower())
    return [(0, float(piece), "") if index % 2 else (1, 0.0, piece) for index, piece in enumerate(pieces)]
