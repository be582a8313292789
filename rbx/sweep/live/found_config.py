"""What a gateway's configuration was before a sweep replaced it, kept on disk until it is put back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rbx.durable import write_json
from rbx.errors import StoreError
from rbx.sweep.live.config_swap import InForce

FILE = "found_config.json"


class FoundConfig:
    """A note that outlives a sweep which is killed; the next one in the same folder puts back what it says.

    ``config`` stood at ``url`` first. ``ours`` is the label of the version that the sweep has put in force
    last; while it puts another one there, ``replacing`` is the number of the version that goes.
    """

    def __init__(self, path: Path | None, url: str) -> None:
        """Read what an earlier sweep has left at ``path``, if anything; None keeps no file.

        Raises ``StoreError`` for a file that is no such note.
        """
        self._path = path
        self._url = url
        self._config: dict[str, Any] | None = None
        self._ours: str | None = None
        self._replacing: int | None = None
        if path is not None and path.exists():
            self._read(path)

    def _read(self, path: Path) -> None:
        try:
            note = json.loads(path.read_text(encoding="utf-8"))
            url, config, ours, replacing = (note[key] for key in ("url", "config", "ours", "replacing"))
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            raise StoreError(
                f"{path}: not what a sweep notes of a gateway's configuration; see to it that the gateway "
                "has the one that it should have, and delete the file"
            ) from None
        if url == self._url and isinstance(config, dict):
            self._config, self._ours, self._replacing = config, ours, replacing

    def replacing(self, found: InForce, standing: InForce) -> None:
        """``standing`` is about to go; ``found`` is to come back in the end. Raises ``StoreError``."""
        self._config, self._replacing = found.config, standing.number
        self._write()

    def replaced(self, ours: InForce) -> None:
        """``ours`` is in force; raises ``StoreError``."""
        self._ours, self._replacing = ours.label, None
        self._write()

    def refused(self) -> None:
        """What was to go stands still, or somebody else's does; raises ``StoreError``."""
        self._replacing = None
        self._write()

    def to_put_back(self, standing: InForce) -> dict[str, Any] | None:
        """The configuration found first, where ``standing`` is a sweep's; None where it is anybody else's."""
        put_unheard = self._replacing is not None and standing.number == self._replacing + 1
        return self._config if standing.label == self._ours or put_unheard else None

    @property
    def noted(self) -> bool:
        """Whether there may be something to put back."""
        return self._config is not None

    def forget(self) -> None:
        """What was found stands there again, or what somebody else has put there."""
        self._config = self._ours = self._replacing = None
        if self._path is not None:
            self._path.unlink(missing_ok=True)

    def _write(self) -> None:
        if self._path is not None:
            note = {"url": self._url, "config": self._config}
            write_json({**note, "ours": self._ours, "replacing": self._replacing}, self._path)
