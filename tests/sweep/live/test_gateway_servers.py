"""A cell's servers behind a real gateway over mock servers: ready, known by name, given its policy."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from copy import copy
from pathlib import Path
from typing import Any, TypeVar

import httpx
import pytest

from rbx.config.endpoints import Endpoints, InstanceEndpoint
from rbx.config.policy import ExternalPolicy, RouteBalancePolicy, RoutedPolicy
from rbx.errors import ConfigError, StoreError
from rbx.heads.bundle import Bundle
from rbx.serve.mock.serving import serve_mock
from rbx.sweep.live.fault import TargetFault
from rbx.sweep.live.opening import opened
from rbx.sweep.live.prefix_cache import prefix_hits
from rbx.sweep.live.target import LiveTarget
from tests.serve.gateway.serving import small_pool as pool_of_the_heads
from tests.serve.mock.pools import small_pool
from tests.sweep.live.gateways import SHORTEST, Deployment, deployed, serving_gateway
from tests.sweep.live.on_gateway import config_of, experiment, install, on, written

T = TypeVar("T")
RANDOM = RoutedPolicy(router="passthrough", dispatch="random")
ALWAYS = RoutedPolicy(router="always", dispatch="random", model="small")
NOWHERE = {name: InstanceEndpoint(url="http://127.0.0.1:9/v1") for name in ("twin/0", "twin/1", "alone/0")}
LOAD = {
    "model": "auto",
    "messages": [{"role": "user", "content": "x"}],
    "max_tokens": 4000,
    "ignore_eos": True,
}


async def _through_a_cell(servers: LiveTarget) -> dict[str, Any]:
    await servers.ready()
    identity = await servers.identity()
    installed = await servers.install(RANDOM)
    return {
        "identity": identity,
        "installed": installed,
        "drained": await servers.drained(5.0),
        "reset": await servers.reset_prefix_caches(),
        "pages": await servers.pages(),
        "simulated": servers.simulated,
        "time_scale": servers.time_scale,
        "url": servers.url,
    }


def test_a_whole_cell(place: Deployment, tmp_path: Path) -> None:
    before = config_of(place)
    target = {"kind": "gateway", "url": place.url + "/", "endpoints": written(place, tmp_path)}
    seen = on(target, _through_a_cell)
    names = {"twin/0", "twin/1", "alone/0"}
    identity = seen["identity"]
    assert identity.pool == small_pool().digest
    assert identity.bundle is None
    assert set(identity.servers) == names
    assert identity.servers["alone/0"].models == ("large",)
    assert identity.servers["alone/0"].max_model_len == 4096
    assert identity.servers["alone/0"].version == "0.32.0"
    assert seen["simulated"] is True
    assert seen["time_scale"] == 20.0
    assert seen["installed"].number == before["version"] + 1
    assert seen["installed"].policy == "passthrough/random"
    assert seen["drained"] is True
    assert set(seen["reset"]) == names
    assert set(seen["pages"]) == {"gateway", *names}
    assert prefix_hits(seen["pages"], seen["pages"]).missing == ()
    assert seen["url"] == f"{place.url}/v1"
    assert identity.as_json()["servers"]["twin/0"]["url"] == place.mock.url("twin/0")


def test_the_cells_policy_targets_and_scheduler_are_put_in_force_and_the_rest_stays(
    place: Deployment,
) -> None:
    standing = {**SHORTEST, "deadlines": {"first_token_s": 7.0}, "admission": {"max_waiting": 99}}
    assert httpx.put(f"{place.url}/v1/config", json=standing, trust_env=False).status_code == 200

    async def work(servers: LiveTarget) -> list[dict[str, Any]]:
        seen = []
        for policy in (RANDOM, ALWAYS, ALWAYS):
            installed = await servers.install(policy)
            answer = httpx.post(
                f"{servers.url}/chat/completions", json={**LOAD, "max_tokens": 2}, trust_env=False
            )
            assert answer.headers["x-rbx-config-version"] == installed.label
            seen.append({**config_of(place), "model": answer.headers["x-rbx-model"]})
        return seen

    scheduler: dict[str, Any] = {
        "batching": {"mode": "fixed", "max_size": 3, "window_s": 0.01},
        "order": "fifo",
    }
    seen = on({"kind": "gateway", "url": place.url}, work, scheduler=scheduler)
    assert [each["policy"] for each in seen] == ["passthrough/random"] + ["always:small/random"] * 2
    assert len({each["label"] for each in seen}) == 3  # the same policy anew has learned nothing yet
    assert seen[1]["model"] == seen[2]["model"] == "small"
    config = seen[1]["config"]
    assert config["scheduler"]["batching"] == {**scheduler["batching"], "eager": False}
    assert config["slo"]["ttft_s"] == 0.5
    assert config["max_output_tokens"] == 77
    assert config["deadlines"]["first_token_s"] == 7.0
    assert config["admission"]["max_waiting"] == 99
    after = config_of(place)
    assert after["policy"] == "passthrough/shortest-queue"
    assert after["config"]["max_output_tokens"] != 77
    assert after["config"]["deadlines"]["first_token_s"] == 7.0


def test_an_external_policy_changes_nothing(place: Deployment) -> None:
    before = config_of(place)

    async def work(servers: LiveTarget) -> Any:
        return await servers.install(ExternalPolicy(name="theirs"))

    installed = on({"kind": "gateway", "url": place.url}, work)
    assert (installed.label, installed.policy) == (before["label"], before["policy"])
    assert config_of(place) == before


def fault_of(
    target: Mapping[str, Any], work: Callable[[LiveTarget], Awaitable[Any]], **more: Any
) -> TargetFault:
    with pytest.raises(TargetFault) as raised:
        on(target, work, **more)
    return raised.value


async def _ready(servers: LiveTarget) -> None:
    await servers.ready()


async def _identity(servers: LiveTarget) -> None:
    await servers.identity()


def test_a_policy_that_the_gateway_can_not_run_is_told_in_its_words_and_changes_nothing(
    place: Deployment,
) -> None:
    before = config_of(place)
    policy = RouteBalancePolicy(weights=(0.4, 0.3, 0.3))
    fault = fault_of({"kind": "gateway", "url": place.url}, install(policy))
    assert fault.kind == "config_refused"
    assert "HTTP 400" in str(fault)
    assert "give a bundle" in str(fault)
    assert policy.label in str(fault)
    assert config_of(place) == before


def test_somebody_else_who_changes_the_configuration_ends_that_cell_alone(place: Deployment) -> None:
    async def work(servers: LiveTarget) -> tuple[TargetFault, Any]:
        await servers.install(RANDOM)
        httpx.put(f"{place.url}/v1/config", json=SHORTEST, trust_env=False).raise_for_status()
        with pytest.raises(TargetFault) as raised:
            await servers.install(ALWAYS)
        return raised.value, await servers.install(ALWAYS)

    fault, installed = on({"kind": "gateway", "url": place.url}, work)
    assert fault.kind == "config_changed"
    assert installed.policy == "always:small/random"


def test_a_change_between_look_and_put_is_refused_by_its_tag(
    place: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rbx.sweep.live.config_swap import ConfigSwap

    put = ConfigSwap.put

    async def outrun(self: ConfigSwap, config: dict[str, Any], instead_of: str) -> Any:
        httpx.put(f"{place.url}/v1/config", json=SHORTEST, trust_env=False).raise_for_status()
        return await put(self, config, instead_of)

    monkeypatch.setattr(ConfigSwap, "put", outrun)
    fault = fault_of({"kind": "gateway", "url": place.url}, install(RANDOM))
    assert fault.kind == "config_changed"
    assert "HTTP 412" in str(fault)


def test_another_pool_behind_the_address_is_not_measured(place: Deployment) -> None:
    fault = fault_of({"kind": "gateway", "url": place.url}, _identity, pool=small_pool(max_model_len=2048))
    assert fault.kind == "wrong_model"
    assert "another pool" in str(fault)
    assert "--pool pool.yaml" in str(fault)


def test_a_gateway_with_other_heads_is_not_measured(bundle: Bundle) -> None:
    pool = pool_of_the_heads()
    with deployed(pool, bundle=bundle) as place:
        target = {"kind": "gateway", "url": place.url}
        assert on(target, _digests, pool=pool, bundle=bundle) == (pool.digest, bundle.digest)
        other = copy(bundle)
        vars(other)["digest"] = "0" * 64
        fault = fault_of(target, _identity, pool=pool, bundle=other)
    assert fault.kind == "wrong_model"
    assert "other heads" in str(fault)
    assert "--bundle bundle" in str(fault)


async def _digests(servers: LiveTarget) -> tuple[str | None, str | None]:
    identity = await servers.identity()
    return identity.pool, identity.bundle


def test_servers_of_another_model_are_all_named(place: Deployment, tmp_path: Path) -> None:
    swapped = {
        "twin_0": InstanceEndpoint(url=place.mock.url("alone/0")),
        "alone_0": InstanceEndpoint(url=place.mock.url("twin/0")),
    }
    target = {"kind": "gateway", "url": place.url, "endpoints": written(place, tmp_path, **swapped)}
    fault = fault_of(target, _identity)
    assert fault.kind == "wrong_model"
    assert "twin/0" in str(fault)
    assert "alone/0" in str(fault)
    assert "serves large, not 'small'" in str(fault)


def test_servers_with_other_limits_than_the_pools_are_told(place: Deployment) -> None:
    async def identified(servers: LiveTarget) -> tuple[str, ...]:
        return (await servers.identity()).warnings

    assert on({"kind": "gateway", "url": place.url}, identified) == ()
    meant = small_pool(kv_blocks=2000)
    with serving_gateway(meant, place.mock.endpoints.of(meant)) as gateway:
        told = on({"kind": "gateway", "url": gateway.url}, identified, pool=meant)
    assert len(told) == 3
    assert all("KV cache of 16,000 tokens" in line and "(pool 32,000" in line for line in told)


def test_a_server_that_is_gone_is_not_ready(place: Deployment, tmp_path: Path) -> None:
    gone = InstanceEndpoint(url="http://127.0.0.1:9/v1")
    target = {"kind": "gateway", "url": place.url, "endpoints": written(place, tmp_path, twin_1=gone)}
    fault = fault_of(target, _identity)
    assert fault.kind == "not_ready"
    assert "twin/1 at http://127.0.0.1:9/v1: no answer (refused)" in str(fault)


def test_a_gateway_that_lacks_an_instance_is_waited_for_and_then_told() -> None:
    with deployed(small_pool(), watch={"period_s": 0.1, "timeout_s": 0.1, "max_age_s": 0.5}) as place:
        target = {"kind": "gateway", "url": place.url}
        place.mock.set_faults({"kind": "down", "target": "alone/0"})
        until_s = time.monotonic() + 30.0
        while "alone/0" in httpx.get(f"{place.url}/readyz", trust_env=False).text:
            assert time.monotonic() < until_s
            time.sleep(0.05)
        fault = fault_of(target, _ready, ready_s=2.0)
        assert fault.kind == "not_ready"
        assert "1 of 3 instances" in str(fault)
        assert "alone/0" in str(fault)
        place.mock.set_faults({"kind": "down", "target": "alone/0", "end_s": 1.0})
        on(target, _ready, ready_s=30.0)


def test_whatever_else_stands_there_is_told_as_such(place: Deployment) -> None:
    nobody = fault_of({"kind": "gateway", "url": "http://127.0.0.1:9"}, _ready, ready_s=0.1)
    assert nobody.kind == "not_ready"
    assert "refused" in str(nobody)
    a_server = place.mock.url("twin/0").removesuffix("/v1")
    other = fault_of({"kind": "gateway", "url": a_server}, _ready, ready_s=0.1)
    assert "is it a gateway of ours" in str(other)
    refused = fault_of({"kind": "gateway", "url": a_server}, _identity)
    assert refused.kind == "config_refused"
    assert "kind: openai" in str(refused)


def test_nobody_at_the_address_is_told_at_once_and_given_up_early(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("rbx.sweep.live.gateway_servers.GatewayServers.nobody_s", 1.0)
    told: list[str] = []

    async def ready(servers: LiveTarget) -> None:
        await servers.ready(told.append)

    fault = fault_of({"kind": "gateway", "url": "http://127.0.0.1:9"}, ready, ready_s=600.0)
    assert fault.kind == "not_there"
    assert len(told) > 1
    assert all(why.startswith("connection refused at http://127.0.0.1:9; start it") for why in told)


def test_a_target_is_lost_with_its_gateway_or_with_all_of_its_servers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rbx.sweep.live.readiness._LOST_PAUSE_S", 0.05)

    async def lost(servers: LiveTarget) -> str | None:
        return await servers.lost()

    with serve_mock(small_pool()) as mock:
        endpoints = mock.endpoints.of(small_pool())
        with serving_gateway(small_pool(), endpoints) as gateway:
            target = {"kind": "gateway", "url": gateway.url}
            one = tmp_path / "one.yaml"
            down = InstanceEndpoint(url="http://127.0.0.1:9/v1")
            one.write_text(Endpoints(instances={**mock.endpoints.instances, "twin/0": down}).as_yaml())
            all_down = tmp_path / "all.yaml"
            nowhere = {
                name: InstanceEndpoint(url=f"http://127.0.0.1:{port}/v1")
                for port, name in zip((9, 13, 17), NOWHERE, strict=True)
            }
            all_down.write_text(Endpoints(instances=nowhere).as_yaml())
            assert on(target, lost) is None
            assert on({**target, "endpoints": str(one)}, lost) is None
            gone = on({**target, "endpoints": str(all_down)}, lost)
            assert gone is not None
            assert gone.startswith("none of the 3 servers behind http://127.0.0.1:")
        assert on(target, lost) == f"connection refused at {gateway.url}/readyz"

        async def drained(servers: LiveTarget) -> bool | None:
            return await servers.drained(0.5)

        assert on(target, drained) is None


def test_a_token_is_read_from_the_environment_and_asked_for_where_it_lacks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with deployed(small_pool(), token="s3cret") as place:
        fault = fault_of({"kind": "gateway", "url": place.url}, _identity)
        assert fault.kind == "config_refused"
        assert "token_env" in str(fault)
        target = {"kind": "gateway", "url": place.url, "token_env": "RBX_TEST_TOKEN"}
        monkeypatch.delenv("RBX_TEST_TOKEN", raising=False)
        with pytest.raises(ConfigError, match=r"RBX_TEST_TOKEN is not set.*token_env"):
            on(target, _identity)
        monkeypatch.setenv("RBX_TEST_TOKEN", "s3cret")
        on(target, _identity)
        installed = on(target, install(RANDOM))
        assert installed.policy == "passthrough/random"
        monkeypatch.setenv("RBX_TEST_TOKEN", "another")
        wrong = fault_of(target, install(RANDOM))
        assert "s3cret" not in str(wrong)
        assert "another" not in str(wrong)


def test_requests_under_way_are_waited_for_wherever_they_are(place: Deployment, tmp_path: Path) -> None:
    target = {"kind": "gateway", "url": place.url, "endpoints": written(place, tmp_path)}

    async def beside(url: str, servers: LiveTarget) -> tuple[bool | None, bool | None]:
        async with httpx.AsyncClient(timeout=60, trust_env=False) as client:
            body = {**LOAD, "model": "small", "max_tokens": 2000}
            asking = asyncio.ensure_future(client.post(f"{url}/chat/completions", json=body))
            await asyncio.sleep(0.3)
            early = await servers.drained(0.2)
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)
        return early, await servers.drained(10.0)

    async def through_the_gateway(servers: LiveTarget) -> tuple[bool | None, bool | None]:
        return await beside(servers.url, servers)

    async def past_the_gateway(servers: LiveTarget) -> tuple[bool | None, bool | None]:
        return await beside(place.mock.url("twin/1"), servers)

    assert on(target, through_the_gateway) == (False, True)
    assert on(target, past_the_gateway) == (False, True)


def test_the_gateway_says_where_its_servers_are(place: Deployment) -> None:
    seen = on({"kind": "gateway", "url": place.url}, _through_a_cell)
    assert set(seen["identity"].servers) == {"twin/0", "twin/1", "alone/0"}
    assert set(seen["pages"]) == {"gateway", "twin/0", "twin/1", "alone/0"}
    assert seen["time_scale"] == 20.0


def test_without_the_servers_addresses_the_gateway_alone_is_known(
    place: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As from another machine, where its addresses lead nowhere.
    monkeypatch.setattr("rbx.sweep.live.gateway_servers._told_endpoints", lambda shown, pool: NOWHERE)

    async def work(servers: LiveTarget) -> tuple[Any, Any, bool | None]:
        identity = await servers.identity()
        with pytest.raises(ConfigError, match=r"live.target.endpoints, or take salt"):
            await servers.reset_prefix_caches()
        return identity.servers, await servers.pages(), await servers.drained(5.0)

    servers, pages, drained = on({"kind": "gateway", "url": place.url}, work)
    assert servers == {}
    assert set(pages) == {"gateway"}
    assert drained


def test_a_server_without_the_page_that_drops_caches_is_told_with_the_way_out(
    place: Deployment, tmp_path: Path
) -> None:
    without = InstanceEndpoint(
        url=f"{place.url}/v1"
    )  # the gateway, which has a list of models and no such page
    target = {"kind": "gateway", "url": place.url, "endpoints": written(place, tmp_path, twin_0=without)}

    async def reset(servers: LiveTarget) -> None:
        await servers.reset_prefix_caches()

    fault = fault_of(target, reset)
    assert fault.kind == "not_reset"
    assert "1 of 3 servers" in str(fault)
    assert "twin/0" in str(fault)
    assert "HTTP 404 at /reset_prefix_cache" in str(fault)
    assert "VLLM_SERVER_DEV_MODE=1" in str(fault)
    assert "salt" in str(fault)


def test_a_cache_that_is_held_is_not_dropped(place: Deployment, tmp_path: Path) -> None:
    target = {"kind": "gateway", "url": place.url, "endpoints": written(place, tmp_path)}

    async def work(servers: LiveTarget) -> tuple[str, ...]:
        async with httpx.AsyncClient(timeout=60, trust_env=False) as client:
            place.mock.set_faults({"kind": "freeze", "target": "alone/0"})
            body = {**LOAD, "model": "large"}
            asking = asyncio.ensure_future(client.post(f"{servers.url}/chat/completions", json=body))
            await asyncio.sleep(0.3)
            with pytest.raises(TargetFault, match="something runs there"):
                await servers.reset_prefix_caches()
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)
            place.mock.set_faults()
        assert await servers.drained(10.0)
        return await servers.reset_prefix_caches()

    assert set(on(target, work)) == {"twin/0", "twin/1", "alone/0"}


def test_pages_that_are_missing_are_left_out(place: Deployment, tmp_path: Path) -> None:
    lost = InstanceEndpoint(url=place.mock.url("twin/0"), metrics_url="http://127.0.0.1:9/metrics")
    target = {"kind": "gateway", "url": place.url, "endpoints": written(place, tmp_path, twin_0=lost)}

    async def pages(servers: LiveTarget) -> dict[str, str]:
        return await servers.pages()

    assert set(on(target, pages)) == {"gateway", "twin/1", "alone/0"}
    place.mock.set_faults({"kind": "telemetry", "mode": "status", "target": "alone/0"})
    try:
        assert set(on(target, pages)) == {"gateway", "twin/1"}
    finally:
        place.mock.set_faults()


def test_two_sweeps_do_not_share_servers_even_behind_two_gateways(place: Deployment, tmp_path: Path) -> None:
    endpoints = written(place, tmp_path)
    with serving_gateway(small_pool(), place.mock.endpoints.of(small_pool())) as second:

        async def work(servers: LiveTarget) -> None:
            meant = experiment({"kind": "gateway", "url": second.url, "endpoints": endpoints})
            assert meant.live is not None
            async with opened(meant.live, meant, small_pool(), None, tmp_path):
                raise AssertionError("not refused")

        with pytest.raises(StoreError, match="another live sweep uses"):
            on({"kind": "gateway", "url": place.url, "endpoints": endpoints}, work)


def test_an_endpoints_file_of_another_pool_is_refused_at_once(place: Deployment, tmp_path: Path) -> None:
    path = tmp_path / "endpoints.yaml"
    path.write_text("instances: {other/0: {url: 'http://127.0.0.1:9/v1'}}\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="no endpoint for twin/0"):
        on({"kind": "gateway", "url": place.url, "endpoints": str(path)}, _ready)
