"""Scenes that several tests look at; each takes seconds to play."""

from __future__ import annotations

import pytest

from rbx.sweep.compare.servers import Tiers, scaled_servers
from tests.sweep.compare.live_scenes import Scene, play
from tests.sweep.scenes import small_pool

FASTER = 1.25  # the servers of the scenes, against the pool file's


@pytest.fixture(scope="session")
def servers() -> Tiers:
    return scaled_servers(small_pool(), FASTER)


@pytest.fixture(scope="session")
def scenes(servers: Tiers) -> tuple[Scene, ...]:
    """Two rates and seeds on servers that are faster than the file says, stamped a millisecond late."""
    return tuple(
        play(servers, rate_per_s=rate, seed=seed, jitter_s=0.001, n_requests=250)
        for rate in (10.0, 20.0)
        for seed in (0, 1)
    )
