"""How far a bundle's latency predictions are off, measured on held-out requests, for filters that ask.

Stored in the bundle beside its heads (``calibration.npz``, ``calibration.json``) with a digest of its own:
a bundle that gains one stays the bundle it was.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rbx.errors import BundleError
from rbx.heads.manifest import canonical
from rbx.heads.residuals import Residuals

CALIBRATION_FILES = ("calibration.json", "calibration.npz")


@dataclass(frozen=True)
class Calibration:
    """Residuals by where the prediction came from: an estimator of TTFT, the heads or the prior of TPOT.

    TTFT counts from the request's arrival. ``how`` says what was run to get them, as plain data.
    """

    tiers: tuple[str, ...]
    ttft: Mapping[str, Residuals]
    tpot: Mapping[str, Residuals]
    how: Mapping[str, Any]

    @cached_property
    def digest(self) -> str:
        """SHA-256 of its files: a cell that is filtered by it depends on this."""
        sha = hashlib.sha256()
        for name, content in sorted(self.files().items()):
            sha.update(name.encode() + b"\0" + hashlib.sha256(content).digest())
        return sha.hexdigest()

    def files(self) -> dict[str, bytes]:
        """Its files in a bundle; the same residuals give the same bytes."""
        arrays: dict[str, NDArray[Any]] = {}
        for kind, by_source in (("ttft", self.ttft), ("tpot", self.tpot)):
            for source, residuals in sorted(by_source.items()):
                arrays[f"{kind} {source} seconds"] = residuals.seconds
                arrays[f"{kind} {source} starts"] = residuals.starts
        buffer = io.BytesIO()
        np.savez(buffer, allow_pickle=False, **arrays)
        described = {"tiers": list(self.tiers), "how": dict(self.how)}
        return {"calibration.json": canonical(described), "calibration.npz": buffer.getvalue()}

    @classmethod
    def of_files(cls, files: Mapping[str, bytes]) -> Calibration | None:
        """The calibration among a bundle's files, if any; raises ``BundleError`` if it does not hold."""
        if not any(name in files for name in CALIBRATION_FILES):
            return None
        try:
            described = json.loads(files["calibration.json"])
            with np.load(io.BytesIO(files["calibration.npz"]), allow_pickle=False) as stored:
                arrays = dict(stored)
            found: dict[str, dict[str, Residuals]] = {"ttft": {}, "tpot": {}}
            for name in arrays:
                kind, source, part = name.split(" ")
                if part == "seconds":
                    residuals = Residuals(arrays[name], arrays[f"{kind} {source} starts"])
                    found[kind][source] = residuals
            tiers = tuple(described["tiers"])
            if any(len(r.starts) != len(tiers) + 1 for by in found.values() for r in by.values()):
                raise ValueError("its tiers and residuals differ in number")
            return cls(tiers, found["ttft"], found["tpot"], described["how"])
        except (KeyError, ValueError, TypeError, RecursionError) as error:
            raise BundleError(f"calibration: malformed: {error}; calibrate the bundle again") from None
