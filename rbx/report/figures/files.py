"""Figures as files: each as SVG and PNG, and none that an earlier report left."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from rbx.errors import StoreError
from rbx.report.figures.drawing import Drawing


def write_drawings(drawings: Iterable[Drawing], folder: Path) -> set[Path]:
    """Write them below ``folder``, which is made; returns the files. Raises ``OSError``."""
    folder.mkdir(parents=True, exist_ok=True)
    written = set()
    for drawing in drawings:
        svg, png = folder / f"{drawing.name}.svg", folder / f"{drawing.name}.png"
        svg.write_text(drawing.svg, encoding="utf-8")
        png.write_bytes(drawing.png)
        written |= {svg, png}
    return written


def clear_stale(folder: Path, written: set[Path]) -> None:
    """Remove figures of an earlier report that this one does not draw; last, so that a failure loses none."""
    for path in sorted({*folder.glob("*.svg"), *folder.glob("*.png")} - written):
        try:
            path.unlink()
        except OSError as error:
            raise StoreError(f"{path}: can't be removed: {error.strerror or error}") from None
