"""Work in bounded numbers: all of it, never too much at once, and what ends it early."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rbx.label.flow import run_bounded


@settings(deadline=None)
@given(n=st.integers(0, 60), concurrency=st.integers(1, 20))
def test_every_item_is_done_once_and_never_more_at_once_than_allowed(n: int, concurrency: int) -> None:
    done: list[int] = []
    under_way = most = 0

    async def work(item: int) -> None:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0)
        done.append(item)
        under_way -= 1

    asyncio.run(run_bounded(range(n), work, concurrency))
    assert sorted(done) == list(range(n))
    assert most == min(n, concurrency)


def test_items_are_taken_only_as_they_are_needed() -> None:
    taken, ahead = 0, []

    def items() -> Iterator[int]:
        nonlocal taken
        for item in range(100):
            taken += 1
            yield item

    async def work(item: int) -> None:
        await asyncio.sleep(0)
        ahead.append(taken - item)

    asyncio.run(run_bounded(items(), work, 3))
    assert len(ahead) == 100
    assert max(ahead) <= 3


@pytest.mark.parametrize("before", [True, False])
def test_a_stop_takes_nothing_more_and_finishes_what_is_under_way(before: bool) -> None:
    begun: list[int] = []
    done: list[int] = []

    async def run() -> None:
        stop = asyncio.Event()
        if before:
            stop.set()

        async def work(item: int) -> None:
            begun.append(item)
            if item == 5:
                stop.set()
            await asyncio.sleep(0.001)
            done.append(item)

        await run_bounded(range(100), work, 4, stop)

    asyncio.run(run())
    assert sorted(begun) == sorted(done)
    assert len(done) == 0 if before else 6 <= len(done) <= 8


def test_the_first_failure_ends_the_others() -> None:
    cancelled: list[int] = []

    async def work(item: int) -> None:
        if item == 2:
            raise ValueError("item 2")
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.append(item)
            raise

    with pytest.raises(ValueError, match="item 2"):
        asyncio.run(run_bounded(range(100), work, 4))
    assert sorted(cancelled) == [0, 1, 3]
