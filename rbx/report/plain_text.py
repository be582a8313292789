"""Text of a sweep made safe to draw and to print."""

from __future__ import annotations


def printable(text: str) -> str:
    """Control characters shown, not sent: they break an SVG, and can drive a terminal."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
