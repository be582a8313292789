"""Shares of tiers or models in few words, so that a table's last column stays narrow."""

from __future__ import annotations

from collections.abc import Iterable

from rbx.report.number import percent


def mix_words(shares: dict[str, float], start: str) -> str:
    """Largest share first; those of no share are not named, nor ``start``, which all names begin with."""
    ordered = sorted(shares.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{name.removeprefix(start)} {percent(share)}" for name, share in ordered if share > 0)


def common_start(shares: Iterable[dict[str, float]]) -> str:
    """What all of several names begin with, up to a hyphen or slash: ``Qwen2.5-`` of the Qwen2.5 models."""
    names = {name for each in shares for name in each}
    if len(names) < 2:
        return ""
    first, last = min(names), max(names)
    differs = (index for index, (a, b) in enumerate(zip(first, last, strict=False)) if a != b)
    start = first[: next(differs, len(first))]
    return start[: max(start.rfind("-"), start.rfind("/")) + 1]
