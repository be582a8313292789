"""The manifest of a bundle directory: the sha256 of every file, checked before any is believed."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from rbx.errors import BundleError

MANIFEST = "manifest.json"
FORMAT = 2  # 2: survival tables and reserves


def canonical(data: Any) -> bytes:
    """Indented JSON with sorted keys and a final newline: the same bytes for the same data."""
    return (json.dumps(data, sort_keys=True, indent=1, allow_nan=False) + "\n").encode()


def write_files(folder: Path, files: dict[str, bytes]) -> None:
    """Write every file and, last, the manifest over them."""
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    digests = {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}
    (folder / MANIFEST).write_bytes(canonical({"format": FORMAT, "files": digests}))


def read_files(folder: Path) -> dict[str, bytes]:
    """Read every file the manifest lists; raises ``BundleError`` naming the first that does not hold."""
    files = {}
    for name, expected in _digests(folder).items():
        path = folder / name
        try:
            data = path.read_bytes()
        except OSError as error:
            raise BundleError(f"{path}: can't be read ({error.strerror}); train the bundle again") from None
        found = hashlib.sha256(data).hexdigest()
        if found != expected:
            raise BundleError(
                f"{path}: sha256 is {found[:16]}…, the manifest says {expected[:16]}…; the file was changed "
                "after training: restore it or train the bundle again"
            )
        files[name] = data
    return files


def _digests(folder: Path) -> dict[str, str]:
    path = folder / MANIFEST
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise BundleError(
            f"{folder}: no bundle here ({MANIFEST} is absent); make one with rbx train"
        ) from None
    except (OSError, ValueError, RecursionError) as error:
        raise BundleError(f"{path}: can't be read: {error}; train the bundle again") from None
    found = data.get("format") if isinstance(data, dict) else None
    if type(found) is not int:
        raise BundleError(f"{path}: not a bundle's manifest; train the bundle again")
    if found != FORMAT:
        raise BundleError(
            f"{path}: a bundle of format {found}, this version reads {FORMAT}; train the bundle again"
        )
    files = data.get("files")
    if not isinstance(files, dict) or not all(
        _plain(name) and isinstance(files[name], str) for name in files
    ):
        raise BundleError(f"{path}: 'files' must map names inside the bundle to digests")
    return files


def _plain(name: object) -> bool:
    """A relative path that stays inside the folder."""
    return isinstance(name, str) and not Path(name).is_absolute() and ".." not in Path(name).parts
