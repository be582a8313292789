"""Entries that a file may give by name alone."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any


def named(what: str, kinds: Collection[str], plain: Collection[str] = ()) -> Callable[[Any], Any]:
    """A validator: the name of one of ``kinds`` becomes a mapping of that kind, with its defaults.

    Those of ``plain`` are names and stay so. Raises ``ValueError`` for an unknown name, which calls it a
    ``what``.
    """

    def checked(entry: Any) -> Any:
        kind = entry.get("kind") if isinstance(entry, dict) else entry
        if isinstance(kind, str) and kind not in kinds and kind not in plain:
            raise ValueError(f"unknown {what} {kind!r}; known: {', '.join((*plain, *kinds))}")
        return {"kind": entry} if isinstance(entry, str) and entry in kinds else entry

    return checked
