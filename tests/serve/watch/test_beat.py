"""How often a page is asked for."""

from __future__ import annotations

import asyncio
import random
from functools import partial

import pytest

from rbx.config.gateway import WATCH_JITTER
from rbx.serve.watch.beat import MOST_PERIODS, Pace, beat, pause_s
from rbx.serve.watch.fetch import Unanswered
from tests.serve.watch.targets import until


@pytest.mark.parametrize(
    ("failures", "periods"), [(0, 1), (1, 1), (2, 2), (3, 4), (4, 8), (5, 8), (10**9, 8)]
)
def test_what_fails_is_asked_less_often_up_to_a_bound(failures: int, periods: int) -> None:
    rng = random.Random(1)
    pauses = [pause_s(failures, 0.5, rng) / 0.5 for _ in range(200)]
    assert (1 - WATCH_JITTER) * periods <= min(pauses) < periods < max(pauses) <= (1 + WATCH_JITTER) * periods
    assert periods <= MOST_PERIODS


def test_a_fault_of_our_own_is_not_hidden_and_holds_nobody_up() -> None:
    """An error that is none of an answer's ends the task, after the first try has been told."""

    async def broken() -> None:
        raise KeyError("a fault in the code")

    async def story() -> None:
        tried = asyncio.Event()
        task = asyncio.create_task(beat(broken, print, Pace(1.0), random.Random(0), tried))
        await tried.wait()
        with pytest.raises(KeyError):
            await task

    asyncio.run(story())


def test_failures_are_told_by_reason() -> None:
    told: list[str] = []

    async def fails() -> None:
        if len(told) == 3:
            raise asyncio.CancelledError
        raise Unanswered("status", 503)

    async def story() -> None:
        with pytest.raises(asyncio.CancelledError):
            await beat(fails, told.append, Pace(1e-4), random.Random(0), asyncio.Event())

    asyncio.run(story())
    assert told == ["status"] * 3
    assert str(Unanswered("status", 503)) == "status 503"


def test_another_period_ends_a_pause_of_the_old_one_for_every_beat() -> None:
    async def story() -> list[int]:
        asked, pace = [0, 0], Pace(3600.0)

        async def ask(k: int) -> None:
            asked[k] += 1

        tried = [asyncio.Event(), asyncio.Event()]
        tasks = [
            asyncio.create_task(beat(partial(ask, k), print, pace, random.Random(k), tried[k]))
            for k in range(2)
        ]
        await asyncio.gather(*(event.wait() for event in tried))
        await asyncio.sleep(0)
        pace.change(1e-3)
        await until(lambda: min(asked) >= 4)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return asked

    assert min(asyncio.run(story())) >= 4


def test_an_end_that_comes_together_with_another_period_is_an_end() -> None:
    async def story() -> None:
        async def ask() -> None:
            pass

        tried, pace = asyncio.Event(), Pace(3600.0)
        task = asyncio.create_task(beat(ask, print, pace, random.Random(0), tried))
        await tried.wait()
        await asyncio.sleep(0.01)
        pace.change(3600.0)
        task.cancel()
        done, _ = await asyncio.wait({task}, timeout=20.0)
        assert task in done
        assert task.cancelled()

    asyncio.run(story())
