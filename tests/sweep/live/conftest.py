"""Heads for gateways, and locks that are nobody else's."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.serve.gateway.conftest import bundle

__all__ = ["bundle"]


@pytest.fixture(autouse=True)
def own_locks(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests that run beside these, or sweeps, hold other locks."""
    folder: Path = tmp_path_factory.mktemp("locks")
    monkeypatch.setattr("rbx.sweep.live.pool_lock.lock_home", lambda: folder)
