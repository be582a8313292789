"""Figures as files: each as SVG, PNG and PDF, and none that an earlier report left."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from rbx.errors import StoreError
from rbx.report.figures.drawing import Drawing

_KINDS = ("svg", "png", "pdf")


def write_drawings(drawings: Iterable[Drawing], folder: Path) -> set[Path]:
    """Write them below ``folder``, which is made; returns the files. Raises ``OSError``."""
    folder.mkdir(parents=True, exist_ok=True)
    written = set()
    for drawing in drawings:
        content = {"svg": drawing.svg.encode(), "png": drawing.png, "pdf": drawing.pdf}
        for kind, data in content.items():
            path = folder / f"{drawing.name}.{kind}"
            path.write_bytes(data)
            written.add(path)
    return written


def clear_stale(folder: Path, written: set[Path]) -> None:
    """Remove figures of an earlier report that this one does not draw; last, so that a failure loses none."""
    for path in sorted({path for kind in _KINDS for path in folder.glob(f"*.{kind}")} - written):
        try:
            path.unlink()
        except OSError as error:
            raise StoreError(f"{path}: can't be removed: {error.strerror or error}") from None
