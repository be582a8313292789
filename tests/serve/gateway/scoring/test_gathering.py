"""The queue in front of scoring calls: sizes, windows, calls that fail or never end, clients that leave."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable, Sequence

import pytest

from rbx.config.deployment import Concurrent, Microbatch, ScoringQueue, Serial
from rbx.serve.gateway.scoring.gathering import Gathered, Gathering

Call = Callable[[list[str]], Awaitable[Sequence[str]]]


class Calls:
    """Answers in capitals after ``pace_s``, and remembers what was asked for."""

    def __init__(self, pace_s: float = 0.0) -> None:
        self.pace_s = pace_s
        self.asked: list[list[str]] = []
        self.under_way = self.most = 0

    async def __call__(self, texts: list[str]) -> list[str]:
        self.asked.append(texts)
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        try:
            await asyncio.sleep(self.pace_s)
        finally:
            self.under_way -= 1
        if "fail" in texts:
            raise RuntimeError("no such prompt")
        return [text.upper() for text in texts]


def gathering(queue: ScoringQueue | None, call: Call, within_s: float = 5.0) -> Gathering[str]:
    assert queue is not None
    return Gathering(queue, call, time.monotonic, within_s)


def together(queue: ScoringQueue | None, call: Call, texts: str) -> list[Gathered[str] | None]:
    async def run() -> list[Gathered[str] | None]:
        asked = gathering(queue, call)
        found = await asyncio.gather(*map(asked.ask, texts))
        assert asked.waiting == 0
        await asked.close()
        return found

    return asyncio.run(run())


def answers(found: Sequence[Gathered[str] | None]) -> str:
    return "".join("-" if each is None else each.answer for each in found)


def test_serial_calls_are_of_one_prompt_one_after_the_other_in_order_of_arrival() -> None:
    calls = Calls(0.005)
    found = together(Serial().queue, calls, "abcdef")
    assert answers(found) == "ABCDEF"
    assert calls.asked == [["a"], ["b"], ["c"], ["d"], ["e"], ["f"]]
    assert calls.most == 1
    times = [(each.began_s, each.back_s) for each in found if each is not None]
    assert all(back >= began for began, back in times)
    assert all(later >= earlier for (_, earlier), (later, _) in itertools.pairwise(times))


def test_concurrent_calls_overlap_up_to_the_workers() -> None:
    calls = Calls(0.02)
    assert answers(together(Concurrent(workers=3).queue, calls, "abcdefgh")) == "ABCDEFGH"
    assert calls.most == 3
    assert {len(texts) for texts in calls.asked} == {1}


def test_a_full_call_begins_at_once_and_no_call_is_larger() -> None:
    calls = Calls()
    started = time.monotonic()
    assert answers(together(Microbatch(max_size=4, window_s=0.2).queue, calls, "abcdefghij")) == "ABCDEFGHIJ"
    assert [len(texts) for texts in calls.asked] == [4, 4, 2]
    assert time.monotonic() - started >= 0.2  # the last two wait out the window


def test_what_comes_during_a_call_gathers_for_the_next_one() -> None:
    calls = Calls(0.05)

    async def run() -> None:
        asked = gathering(Microbatch(window_s=0.0).queue, calls)
        first = asyncio.create_task(asked.ask("a"))
        await asyncio.sleep(0.02)
        await asyncio.gather(first, *(asked.ask(text) for text in "bcd"))
        await asked.close()

    asyncio.run(run())
    assert calls.asked == [["a"], ["b", "c", "d"]]


def test_a_call_that_fails_costs_its_own_prompts_alone() -> None:
    async def run() -> list[Gathered[str] | None]:
        asked = gathering(Serial().queue, Calls())
        found = await asyncio.gather(*(asked.ask(text) for text in ("a", "fail", "b")))
        await asked.close()
        return list(found)

    assert answers(asyncio.run(run())) == "A-B"


def test_a_call_that_hangs_holds_nobody_up_and_all_is_well_once_it_ends() -> None:
    async def run() -> None:
        release = asyncio.Event()

        async def call(texts: list[str]) -> list[str]:
            if "hang" in texts:
                await release.wait()
            return texts

        asked = gathering(Serial().queue, call, within_s=0.05)
        started = time.monotonic()
        found = await asyncio.gather(*(asked.ask(text) for text in ("hang", "b", "c")))
        assert found == [None, None, None]  # the worker is not free for b and c
        assert await asked.ask("d") is None
        assert time.monotonic() - started < 2.0
        release.set()
        await asyncio.sleep(0.01)
        assert (await asked.ask("e")) is not None
        await asked.close()

    asyncio.run(run())


def test_one_hanging_call_leaves_the_other_workers_their_work() -> None:
    async def run() -> None:
        async def call(texts: list[str]) -> list[str]:
            await asyncio.sleep(100 if "hang" in texts else 0)
            return texts

        asked = gathering(Concurrent(workers=2).queue, call, within_s=0.05)
        hanging = asyncio.create_task(asked.ask("hang"))
        await asyncio.sleep(0.01)
        for _ in range(3):
            assert await asked.ask("b") is not None
        assert await hanging is None
        assert await asked.ask("c") is not None
        await asked.close()

    asyncio.run(run())


def test_who_leaves_is_not_scored_and_who_waits_at_the_end_is_told() -> None:
    calls = Calls(0.05)

    async def run() -> None:
        asked = gathering(Serial().queue, calls)
        first, leaves, stays = (asyncio.create_task(asked.ask(text)) for text in "abc")
        await asyncio.sleep(0.01)
        assert asked.waiting == 2
        leaves.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leaves
        assert asked.waiting == 1
        await asked.close()
        assert await first is None
        assert await stays is None
        assert await asked.ask("d") is None

    asyncio.run(run())
    assert calls.asked == [["a"]]


@pytest.mark.parametrize("later", range(8))
def test_no_call_begins_after_the_end_whenever_that_comes(later: int) -> None:
    """Up to Python 3.11 a wait that is just over swallows the cancellation of whoever waits."""
    calls = Calls()

    async def run() -> None:
        asked = gathering(Microbatch(window_s=0.05).queue, calls)
        first = asyncio.create_task(asked.ask("a"))
        await asyncio.sleep(0.01)
        second = asyncio.create_task(asked.ask("b"))
        for _ in range(later):
            await asyncio.sleep(0)
        await asked.close()
        assert await first is None
        assert await second is None

    asyncio.run(run())
    assert calls.asked == []
