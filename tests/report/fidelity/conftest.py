"""One live sweep on servers that are faster than its pool file says, read and studied once."""

from __future__ import annotations

from pathlib import Path

import pytest

from rbx.report.fidelity import study as study_module
from rbx.report.fidelity.study import Fidelity, FidelityOptions, study
from rbx.report.load import Sweep, read_sweep
from rbx.report.paired import Resampling
from rbx.sweep.compare.servers import scaled_servers
from rbx.sweep.context import SweepContext
from tests.sweep.compare.live_scenes import Scene, play, write_store
from tests.sweep.scenes import small_pool

FASTER = 1.25
POLICIES = [{"kind": "passthrough", "dispatch": ["round-robin", "shortest-queue"]}]
QUICK = FidelityOptions(resampling=Resampling(n_resamples=200))


@pytest.fixture(scope="session")
def live_scenes() -> tuple[Scene, ...]:
    servers = scaled_servers(small_pool(), FASTER)
    return tuple(
        play(servers, number=number, rate_per_s=rate, policies=POLICIES, n_requests=250)
        for rate in (8.0, 16.0)
        for number in (0, 1)
    )


@pytest.fixture(scope="session")
def live_folder(live_scenes: tuple[Scene, ...], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_store(tmp_path_factory.mktemp("validate") / "live", live_scenes)


@pytest.fixture(scope="session")
def live_sweep(live_folder: Path) -> Sweep:
    return read_sweep(live_folder)


@pytest.fixture
def context(live_scenes: tuple[Scene, ...], monkeypatch: pytest.MonkeyPatch) -> SweepContext:
    """The sweep's context, for a sweep whose grid and bundle are on no disk."""
    found = live_scenes[0].context

    def load(folder: Path) -> SweepContext:
        return found

    monkeypatch.setattr(study_module, "load_context", load)
    return found


@pytest.fixture(scope="session")
def without_policies(live_sweep: Sweep) -> Fidelity:
    return study(live_sweep, QUICK)
