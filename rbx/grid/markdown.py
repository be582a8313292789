"""Text from anywhere made safe inside Markdown: it shows as it is and does nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

_SAFE = str.maketrans(
    {mark: f"\\{mark}" for mark in "\\`*_[]|~$#"} | {"&": "&amp;", "<": "&lt;", ">": "&gt;", "@": "&#64;"}
)


def escaped(text: str) -> str:
    """One line without markup, links or control characters."""
    line = " ".join(text.split())
    shown = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in line)
    # A renderer may make links of bare addresses.
    return shown.translate(_SAFE).replace("://", ":&#47;&#47;").replace("www.", "www&#46;")


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of cells that are Markdown already; ends with a newline."""
    lines = [headings, ["---"] * len(headings), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def bullets(values: Mapping[str, Any], depth: int = 0) -> Iterator[str]:
    """Nested lists of what a mapping holds, escaped, a line each; what is None or empty is left out."""
    for key, value in values.items():
        if value is None or value in ([], {}, (), ""):
            continue
        name = f"{'  ' * depth}- {escaped(str(key))}:"
        if isinstance(value, Mapping):
            yield f"{name}\n"
            yield from bullets(value, depth + 1)
        elif isinstance(value, (list, tuple)):
            numbered = {str(number): each for number, each in enumerate(value, start=1)}
            yield f"{name}\n"
            yield from bullets(numbered, depth + 1)
        else:
            yield f"{name} {escaped(str(value))}\n"
