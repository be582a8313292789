"""Files of an earlier report that this one does not write."""

from __future__ import annotations

from pathlib import Path

from rbx.errors import StoreError


def clear_stale(folder: Path, written: set[Path], suffixes: tuple[str, ...]) -> None:
    """Remove those of ``suffixes`` in ``folder`` but ``written``: last of all, so that a failure loses none.

    Raises ``StoreError``.
    """
    for path in sorted({path for suffix in suffixes for path in folder.glob(f"*{suffix}")} - written):
        try:
            path.unlink()
        except OSError as error:
            raise StoreError(f"{path}: can't be removed: {error.strerror or error}") from None
