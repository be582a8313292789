"""A gateway gets back what it had before a sweep, however the sweep ended."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from rbx.config.policy import ExternalPolicy, RoutedPolicy
from rbx.errors import StoreError
from rbx.sweep.live.gateway_servers import GatewayServers
from rbx.sweep.live.target import LiveTarget
from tests.sweep.live.gateways import Deployment
from tests.sweep.live.on_gateway import config_of, install, on

RANDOM = RoutedPolicy(router="passthrough", dispatch="random")
ALWAYS = RoutedPolicy(router="always", dispatch="random", model="small")


@pytest.fixture
def killed(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """From here on nothing is put back at the end, until what it gives is called."""

    async def dead(servers: GatewayServers) -> None:
        pass

    whole = GatewayServers.restore
    monkeypatch.setattr(GatewayServers, "restore", dead)
    return lambda: monkeypatch.setattr(GatewayServers, "restore", whole)


@pytest.mark.parametrize("unheard", [False, True])
def test_what_stood_there_comes_back_after_a_sweep_that_was_killed(
    place: Deployment, tmp_path: Path, killed: Callable[[], None], unheard: bool
) -> None:
    before = config_of(place)
    target, note = {"kind": "gateway", "url": place.url}, tmp_path / "found_config.json"
    on(target, install(ALWAYS), note=note)
    assert config_of(place)["policy"] == "always:small/random"
    if unheard:  # killed between the change and the line about it
        noted = json.loads(note.read_text())
        number = config_of(place)["version"] - 1
        note.write_text(json.dumps({**noted, "ours": None, "replacing": number}))
    killed()
    seen = on(target, install(ExternalPolicy(name="theirs")), note=note)
    assert seen.policy == before["policy"]  # a cell that takes what stands there takes no leftover
    on(target, install(RANDOM), note=note)
    assert config_of(place)["config"] == before["config"]
    assert not note.exists()


def test_a_sweep_with_nothing_left_to_run_still_puts_back_what_a_kill_has_left(
    place: Deployment, tmp_path: Path, killed: Callable[[], None]
) -> None:
    before = config_of(place)
    target, note = {"kind": "gateway", "url": place.url}, tmp_path / "found_config.json"
    on(target, install(ALWAYS), note=note)
    killed()

    async def nothing(servers: LiveTarget) -> None:
        pass

    on(target, nothing, note=note)
    assert config_of(place)["config"] == before["config"]
    assert not note.exists()


def test_what_somebody_else_has_put_there_since_the_kill_stays(
    place: Deployment, tmp_path: Path, killed: Callable[[], None]
) -> None:
    before = config_of(place)
    target, note = {"kind": "gateway", "url": place.url}, tmp_path / "found_config.json"
    on(target, install(ALWAYS), note=note)
    theirs = {**before["config"], "max_output_tokens": 1234}
    httpx.put(f"{place.url}/v1/config", json=theirs, trust_env=False).raise_for_status()
    killed()
    on(target, install(RANDOM), note=note)
    assert config_of(place)["config"]["max_output_tokens"] == 1234
    assert not note.exists()


@pytest.mark.parametrize("text", ["{", "[" * 100_000], ids=["cut", "deep"])
def test_a_note_that_is_none_is_told_before_anything_is_changed(
    place: Deployment, tmp_path: Path, text: str
) -> None:
    note = tmp_path / "found_config.json"
    note.write_text(text)
    with pytest.raises(StoreError, match=r"found_config.json: not what a sweep notes.*delete the file"):
        on({"kind": "gateway", "url": place.url}, install(RANDOM), note=note)
