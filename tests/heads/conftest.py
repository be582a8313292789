"""Fixtures of the heads' tests: a cache of their own, and an encoder that costs nothing."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray


class HashEncoder:
    """Unit vectors drawn from the text's hash, with one axis that holds its first word."""

    name = "minilm"
    dim = 16

    def __init__(self) -> None:
        self.digest = hashlib.sha256(b"hash encoder").hexdigest()
        self.encoded: list[str] = []

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.encoded += texts
        rows = []
        for text in texts:
            word, _, _ = text.partition(" ")
            topic = np.random.default_rng(
                int(hashlib.sha256(word.encode(errors="replace")).hexdigest()[:8], 16)
            )
            noise = np.random.default_rng(
                int(hashlib.sha256(text.encode(errors="replace")).hexdigest()[:8], 16)
            )
            vector = topic.normal(size=self.dim) + 0.3 * noise.normal(size=self.dim)
            rows.append(vector / np.linalg.norm(vector))
        return np.array(rows, dtype=np.float32).reshape(-1, self.dim)


@pytest.fixture
def hash_encoder() -> HashEncoder:
    return HashEncoder()


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No test reads or writes the cache of the user who runs it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "rbx"
