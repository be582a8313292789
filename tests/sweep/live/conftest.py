"""Heads for gateways, and locks that are nobody else's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.serve.gateway.conftest import bundle
from tests.serve.mock.pools import small_pool
from tests.sweep.live.gateways import Deployment, deployed

__all__ = ["bundle"]


@pytest.fixture(autouse=True)
def own_locks(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests that run beside these, or sweeps, hold other locks."""
    folder: Path = tmp_path_factory.mktemp("locks")
    monkeypatch.setattr("rbx.sweep.live.pool_lock.lock_home", lambda: folder)


@pytest.fixture(scope="module")
def place() -> Iterator[Deployment]:
    """A gateway over mock servers of the small pool."""
    with deployed(small_pool()) as found:
        yield found
