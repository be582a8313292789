"""Servers together: real time, independence, clients that leave, ports."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable
from typing import Any

import aiohttp
import numpy as np
import pytest

from rbx.config.faults import FaultScript
from rbx.config.pool import Pool
from rbx.engine.simulator import EngineSim
from rbx.errors import ConfigError, ServerError
from rbx.serve.mock.serving import MockTier, serve_mock
from tests.serve.mock.heard import Heard, hear, hear_all, listen
from tests.serve.mock.pools import small_pool

# A request reaches its server a moment after it was sent and may catch another step than the simulator's:
# a few steps of 5 ms early. How late a busy machine is nobody can promise.
EARLY_S, LATE_S = 0.02, 1.0


def wait_for(condition: Callable[[], bool], within_s: float = 10.0) -> None:
    end_s = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < end_s, "it did not come about"
        time.sleep(0.005)


def idle(tier: MockTier) -> bool:
    return all(each.running == each.waiting == each.connections == 0 for each in tier.sight().values())


def test_the_client_sees_the_simulators_times() -> None:
    pool, scale = small_pool(), 2.0
    # On alone/0 the second waits for the first; on twin/0 the third's prefill holds up the others' decodes.
    plan = [
        ("alone/0", 0.0, 300, 100),
        ("alone/0", 0.1, 100, 60),
        ("twin/0", 0.0, 50, 200),
        ("twin/0", 0.2, 50, 150),
        ("twin/0", 0.5, 900, 50),
    ]

    async def ask(tier: MockTier) -> list[Heard]:
        async with aiohttp.ClientSession() as session:

            async def later(name: str, at_s: float, prompt: int, output: int) -> Heard:
                await asyncio.sleep(at_s)
                url = tier.url(name)
                return await listen(session, url, rbx_prompt_tokens=prompt, rbx_output_tokens=output)

            return await asyncio.gather(*(later(*row) for row in plan))

    with serve_mock(pool, time_scale=scale) as tier:
        heard = asyncio.run(ask(tier))
    names = [instance.name for instance in pool.instances]
    engine = EngineSim([instance.tier for instance in pool.instances], len(plan))
    start_s = min(each.sent_s for each in heard)
    for (name, _, prompt, output), each in zip(plan, heard, strict=True):
        at_s = (each.sent_s - start_s) * scale
        engine.submit_many([names.index(name)], [at_s], [prompt], [output], [output], None, [4096 - prompt])
    engine.drain()
    assert [len(each.text_s) for each in heard] == [output for *_, output in plan]
    first_s = np.array([each.text_s[0] - start_s for each in heard])
    last_s = np.array([each.text_s[-1] - start_s for each in heard])
    for seen_s, true_s in ((first_s, engine.first_token_s), (last_s, engine.done_s)):
        late_s = seen_s - true_s / scale
        assert late_s.min() > -EARLY_S
        assert late_s.max() < LATE_S
    assert engine.first_token_s[1] > engine.done_s[0], "the scene has a queue"


def test_two_instances_know_nothing_of_each_other() -> None:
    with serve_mock(small_pool(), time_scale=10.0) as tier:
        asked = [(tier.url("twin/0"), {"rbx_output_tokens": 4000, "content": str(k)}) for k in range(64)]
        heard = hear_all([*asked, (tier.url("twin/1"), {"rbx_output_tokens": 5})], leave_after=5)
        assert all(len(each.texts) >= 5 for each in heard)
        seen = tier.sight()
        assert (seen["twin/0"].received, seen["twin/1"].received, seen["alone/0"].received) == (64, 1, 0)
        wait_for(lambda: idle(tier))


def test_clients_that_leave_free_everything(mock: MockTier) -> None:
    asked: list[tuple[str, dict[str, Any]]] = [
        (mock.url(name), {"rbx_output_tokens": 4000, "content": str(k)})
        for k in range(25)
        for name in ("twin/0", "alone/0")
    ]

    async def ask() -> None:
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
            tasks = [asyncio.ensure_future(listen(session, url, **fields)) for url, fields in asked]
            while mock.sight()["twin/0"].running + mock.sight()["alone/0"].waiting < 49:
                await asyncio.sleep(0.01)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(ask())
    wait_for(lambda: idle(mock))
    seen = mock.sight()
    assert all(each.free_blocks == each.total_blocks for each in seen.values())
    assert len(hear(mock.url("alone/0"), rbx_output_tokens=5).texts) == 5


def test_a_client_that_leaves_a_plain_request_frees_it_too(mock: MockTier) -> None:
    async def ask() -> None:
        timeout = aiohttp.ClientTimeout(total=0.2)
        async with aiohttp.ClientSession(timeout=timeout) as session:
            body = {"prompt": "x", "max_tokens": 4000, "ignore_eos": True}
            with pytest.raises(asyncio.TimeoutError):
                await session.post(mock.url("alone/0") + "/completions", json=body)

    asyncio.run(ask())
    wait_for(lambda: idle(mock))


def test_ports_follow_one_another_and_one_in_use_is_named() -> None:
    with serve_mock(small_pool()) as first:
        taken = int(first.url("twin/1").rsplit(":", 1)[1].removesuffix("/v1"))
        with (
            pytest.raises(ServerError, match=f"port {taken} is in use"),
            serve_mock(small_pool(), base_port=taken),
        ):
            pass
    base = free_run_of_ports(4)
    with serve_mock(small_pool(), base_port=base) as tier:
        assert [tier.url(name) for name in ("twin/0", "twin/1", "alone/0")] == [
            f"http://127.0.0.1:{base + k}/v1" for k in range(3)
        ]
        assert tier.control_url == f"http://127.0.0.1:{base + 3}/faults"
    with serve_mock(small_pool(), base_port=base):
        pass  # all ports were given back


def free_run_of_ports(n: int) -> int:
    for base in range(20_000, 60_000, 97):
        try:
            for port in range(base, base + n):
                with socket.socket() as sock:
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                    sock.bind(("127.0.0.1", port))
        except OSError:
            continue
        return base
    raise AssertionError("no free ports")


def test_chosen_tiers_only_and_the_endpoints_are_the_pools() -> None:
    pool: Pool = small_pool()
    with serve_mock(pool) as tier:
        assert [each.url for each in tier.endpoints.of(pool)] == [
            tier.url(name) for name in ("twin/0", "twin/1", "alone/0")
        ]
    with serve_mock(pool, tiers=["alone"]) as tier:
        assert list(tier.endpoints.instances) == ["alone/0"]


@pytest.mark.parametrize("scale", [0.0, -1.0, float("nan"), float("inf"), 1e9])
def test_a_time_scale_that_is_none_is_refused(scale: float) -> None:
    with pytest.raises(ConfigError, match="time scale"), serve_mock(small_pool(), time_scale=scale):
        pass


def test_what_the_pool_does_not_have_is_refused() -> None:
    with pytest.raises(ConfigError, match="no tier twins"), serve_mock(small_pool(), tiers=["twins"]):
        pass
    script = FaultScript.model_validate({"faults": [{"kind": "refuse", "target": "twin/2"}]})
    with pytest.raises(ConfigError, match="twin/2"), serve_mock(small_pool(), faults=script):
        pass
    with pytest.raises(ConfigError, match="65535"), serve_mock(small_pool(), base_port=65534):
        pass
