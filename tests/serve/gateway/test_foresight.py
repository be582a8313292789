"""The heads asked by several at once: they take turns, and only a call that is late holds others off."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from typing import Any

import pytest

from rbx.heads.bundle import Bundle
from rbx.serve.gateway.foresight import Foresight
from tests.serve.gateway.slow_encoder import SlowEncoder

WITHIN_S = 20.0


def asked(bundle: Bundle, *calls: tuple[list[str], float]) -> list[Any]:
    async def run() -> list[Any]:
        foresight = Foresight(bundle, len(bundle.models), 100)
        try:
            asking: list[Coroutine[Any, Any, Any]] = [foresight.predict(*call) for call in calls]
            return await asyncio.gather(*asking)
        finally:
            foresight.close()

    return asyncio.run(run())


def test_who_asks_during_anothers_call_is_answered_after_it(
    bundle: Bundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(vars(bundle), "encoder", SlowEncoder())
    found = asked(bundle, (["algebra 1"], WITHIN_S), (["poetry 2", "poetry 3"], WITHIN_S))
    assert [len(each.quality) for each in found] == [1, 2]


def test_who_would_wait_too_long_for_a_turn_gives_it_up_and_the_next_call_is_answered(
    bundle: Bundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = SlowEncoder()
    monkeypatch.setitem(vars(bundle), "encoder", encoder)

    async def run() -> None:
        foresight = Foresight(bundle, len(bundle.models), 100)
        first = asyncio.create_task(foresight.predict(["first"], WITHIN_S))
        await asyncio.sleep(0.1)
        assert await foresight.predict(["gives up"], 0.05) is None
        assert await foresight.predict(["next"], WITHIN_S) is not None
        assert await first is not None
        foresight.close()

    asyncio.run(run())
    assert encoder.encoded == ["first", "next"]


def test_while_a_call_takes_too_long_nobody_waits_and_all_is_well_once_it_ends(
    bundle: Bundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(vars(bundle), "encoder", SlowEncoder())

    async def run() -> None:
        foresight = Foresight(bundle, len(bundle.models), 100)
        assert await foresight.predict(["late"], 0.05) is None
        started = time.monotonic()
        assert await foresight.predict(["at once"], WITHIN_S) is None
        assert time.monotonic() - started < 0.2
        await asyncio.sleep(1.0)
        assert await foresight.predict(["well again"], WITHIN_S) is not None
        foresight.close()

    asyncio.run(run())
