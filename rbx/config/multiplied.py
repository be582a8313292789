"""Lists of constants inside one entry of a list: an entry for each combination."""

from __future__ import annotations

import itertools
from typing import Any


def multiplied(entries: Any) -> Any:
    """``[{kind: power-of-d, d: [2, 3]}]`` is two entries; raises ``ValueError`` for an empty list."""
    if not isinstance(entries, (list, tuple)):
        return entries
    single: list[Any] = []
    for entry in entries:
        lists = {k: v for k, v in entry.items() if isinstance(v, list)} if isinstance(entry, dict) else {}
        for name, values in lists.items():
            if not values:
                raise ValueError(f"{entry.get('kind')}: {name} is an empty list")
        single += [
            {**entry, **dict(zip(lists, values, strict=True))} if lists else entry
            for values in itertools.product(*lists.values())
        ]
    return single
