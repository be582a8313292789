"""How many requests are served at once where the file does not say: what the pool's seats let through."""

from __future__ import annotations

import asyncio
import time
from collections import Counter

import aiohttp
import numpy as np
import pytest

from rbx.serve.gateway.room import room_of, seats_of
from tests.heads.pools import pool, tier
from tests.serve.gateway.serving import CHAT, Serving, config, serving, small_pool

ROOM = 96  # 1.5 for each of 4 x 16 seats
HALF = 48  # for a model with two of the four instances


def test_seats_are_batch_slots_or_what_the_blocks_hold() -> None:
    assert seats_of(small_pool(), 256.0, np.array([512.0, 512.0])).tolist() == [16] * 4
    # 1,024 blocks of 16 tokens hold 16,384; nobody is longer than 1,024.
    assert seats_of(small_pool(), 1000.0, np.array([4.0, 1e6])).tolist() == [16] * 4
    tight = tier("large-a", "large", 0.03)
    limits = tight.limits.model_copy(update={"kv_blocks": 100})
    over = pool(tight.model_copy(update={"limits": limits}), tier("tiny-b", "tiny", 0.01))
    assert seats_of(over, 100.0, np.array([60.0, 60.0])).tolist() == [10, 10, 16, 16]
    assert room_of(np.array([10, 10, 16, 16])) == 78


async def _burst(url: str, n: int, model: str) -> Counter[int]:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

        async def one() -> int:
            async with session.post(f"{url}/v1/chat/completions", json={**CHAT, "model": model}) as answer:
                if answer.status == 429:
                    assert answer.headers["retry-after"] == "1"
                return answer.status

        return Counter(await asyncio.gather(*(one() for _ in range(n))))


def burst(place: Serving, n: int, model: str = "auto") -> Counter[int]:
    return asyncio.run(_burst(place.url, n, model))


@pytest.mark.parametrize(("model", "room"), [("auto", ROOM), ("tiny", HALF)])
def test_ten_times_too_many_are_served_up_to_the_seats(model: str, room: int) -> None:
    with serving(pace_s=2.0, tokens=1) as place:
        found = burst(place, 10 * room, model)
        assert set(found) == {200, 429}
        assert found[200] >= room
        assert sum(instance.most for instance in place.instances) <= room
        place.settled()
        assert burst(place, room // 2, model) == {200: room // 2}


def test_a_policy_of_one_model_has_that_models_room() -> None:
    with serving(config(policy={"kind": "always", "model": "tiny"}), pace_s=2.0, tokens=1) as place:
        burst(place, 10 * HALF)
        assert sum(instance.most for instance in place.instances) <= HALF


def test_instances_that_are_down_give_no_room() -> None:
    with serving(pace_s=0.0) as place:
        place.watch.ready[:2] = False
        until_s = time.monotonic() + 10
        shown = 0
        while shown != HALF and time.monotonic() < until_s:
            shown = place.client.get("/v1/config").json()["effective"]["max_in_flight"]
        assert shown == HALF
        place.watch.ready[:] = False
        assert place.chat().status_code == 503
