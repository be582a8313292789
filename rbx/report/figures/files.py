"""Figures as files: each as SVG, PNG and PDF."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from rbx.errors import StoreError
from rbx.report.figures.drawing import Drawing

SUFFIXES = (".svg", ".png", ".pdf")


def write_drawings(drawings: Iterable[Drawing], folder: Path) -> set[Path]:
    """Write them below ``folder``, which is made; returns the files. Raises ``StoreError``."""
    written = set()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for drawing in drawings:
            for suffix, data in zip(SUFFIXES, (drawing.svg.encode(), drawing.png, drawing.pdf), strict=True):
                path = folder / f"{drawing.name}{suffix}"
                path.write_bytes(data)
                written.add(path)
    except OSError as error:
        raise StoreError(f"{folder}: can't be written: {error.strerror or error}") from None
    return written
