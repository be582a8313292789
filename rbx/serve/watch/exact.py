"""Published states as rungs above the shadow: found and fetched in the background, never in a decision."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from rbx.engine.instance_profile import StepCoefficients
from rbx.engine.instance_snapshot import InstanceSnapshot
from rbx.engine.state import Ints
from rbx.errors import EngineError
from rbx.serve.state.published import PublishedState, StateBytes, header_text, live_states
from rbx.serve.state.remote import remote_snapshot

_NO_IDS: Ints = np.zeros(0, dtype=np.int64)


class LocalState:
    """The state that a server on this host publishes at ``path``, a file or a folder with one of ``model``.

    Reading it is a copy of memory. A state that fails is let go until ``open`` finds one again: a server
    that was started anew publishes a new file.
    """

    def __init__(self, path: Path, model: str, coefficients: StepCoefficients) -> None:
        """Open nothing yet."""
        self._path, self._model, self._coefficients = path, model, coefficients
        self._published: PublishedState | None = None
        self.ids: Ints = _NO_IDS

    def open(self) -> None:
        """Find and open the file unless it is open; raises ``EngineError`` where there is none to trust."""
        if self._published is None:
            path = self._found() if self._path.is_dir() else self._path
            self._published = PublishedState(path, self._coefficients)

    def read(self, now_s: float) -> InstanceSnapshot:
        """The newest snapshot; raises ``EngineError`` as ``PublishedState`` does, and while none is open."""
        if self._published is None:
            raise EngineError(f"{self._path}: no published state is open")
        try:
            snapshot = self._published.read(now_s)
        except EngineError:
            self._published = None
            raise
        self.ids = self._published.ids
        return snapshot

    def _found(self) -> Path:
        fitting = [path for path in live_states(self._path) if self._fits(path)]
        if len(fitting) != 1:
            names = ", ".join(path.name for path in fitting) or "none"
            raise EngineError(
                f"{self._path}: of the states of running servers {names} fit model {self._model!r}; "
                "one must: name the file, or give each server a folder of its own"
            )
        return fitting[0]

    def _fits(self, path: Path) -> bool:
        return header_text(StateBytes(path).header, "served_name") == self._model


class FetchedState:
    """The newest state that was fetched over HTTP."""

    def __init__(self, address: str, coefficients: StepCoefficients) -> None:
        """Nothing is fetched yet."""
        self._address, self._coefficients = address, coefficients
        self._newest: InstanceSnapshot | None = None
        self.ids: Ints = _NO_IDS

    def take(self, content: bytes, asked_s: float, answered_s: float) -> None:
        """An answer; it counts as sent halfway. Raises ``EngineError`` if it can't be a state.

        What it was before is then forgotten: a server that tells nonsense is not to be trusted.
        """
        self._newest = None
        sent_s = (asked_s + answered_s) / 2
        self._newest, self.ids = remote_snapshot(self._address, content, sent_s, self._coefficients)

    def read(self, now_s: float) -> InstanceSnapshot:
        """The newest; raises ``EngineError`` if there is none, ``now_s`` is not asked for."""
        if self._newest is None:
            raise EngineError(f"{self._address}: no state has been fetched")
        return self._newest
