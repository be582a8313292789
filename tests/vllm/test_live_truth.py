"""A running vLLM server, observed, fitted and predicted: in short, and with bounds for a busy machine."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np
import pytest

pytest.importorskip("vllm", reason="vLLM is not installed here; `make test-vllm` installs its CPU build")

from rbx.engine.instance_profile import StepCoefficients
from rbx.serve.state.published import PublishedState
from rbx.serve.state.remote import RemoteState
from tests.vllm.live_server import LiveServer
from tests.vllm.live_traffic import Traffic, identity
from tests.vllm.live_truth import Plan, campaign, live_server

pytestmark = pytest.mark.vllm

SHORT = Plan(observe_s=8.0, capacity_s=6.0, constant_s=6.0, band_s=8.0, bands=(0.6,), hidden=128)
ANY = StepCoefficients("C", "any", (0.01, 1e-4, 1e-3))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    with live_server(SHORT, tmp_path_factory.mktemp("live")) as running:
        yield running


def test_the_state_shows_every_request_under_its_clients_name(server: LiveServer) -> None:
    state = PublishedState(server.state, ANY)
    traffic = Traffic(server.port, state, np.random.default_rng(1), "named", (100, 200))
    asyncio.run(traffic.closed(6, 6.0))
    names = {identity(answer) for answer in traffic.answers()}
    seen = {name for sent in traffic.sent for name in sent.ids.tolist()}
    assert len(names) > 12
    assert seen <= names
    assert len(seen) > len(names) // 2
    assert max(len(sent.snapshot.requests) for sent in traffic.sent) >= 4


def test_a_router_elsewhere_reads_the_same_over_http(server: LiveServer) -> None:
    state = PublishedState(server.state, ANY)
    with httpx.Client() as client:
        there, here = RemoteState(server.url, ANY, client).read(), state.read(time.monotonic())
        assert client.get(f"{server.url}/v1/rbx/state?rank=1").status_code == 503
        assert client.get(f"{server.url}/v1/rbx/state?rank=x").status_code == 400
    assert there.version == here.version
    assert there.profile.limits == here.profile.limits
    assert here.stamp_s - 0.5 < there.stamp_s < here.stamp_s + 0.5


def test_ttft_is_predicted_from_what_was_observed(server: LiveServer, tmp_path: Path) -> None:
    found = asyncio.run(campaign(SHORT, server, tmp_path))
    (band,) = found.bands
    errors = band.whole["BEA"]
    assert errors.n > 20
    assert errors.spearman > 0.3
    assert errors.median_ape < 0.8
    assert 0.0 < found.calibration.prefill_tokens_per_s < 1e6
    assert found.capacity_per_s > 1.0
