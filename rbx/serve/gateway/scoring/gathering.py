"""Prompts that wait for scoring calls: first come, first served, so many calls at once."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from rbx.config.deployment import ScoringQueue

_log = logging.getLogger(__name__)

T = TypeVar("T")


@dataclass(frozen=True)
class Gathered(Generic[T]):
    """An answer, when its call began and when it was back."""

    answer: T
    began_s: float
    back_s: float


@dataclass
class _Waiting(Generic[T]):
    text: str
    asked_s: float
    answer: asyncio.Future[Gathered[T] | None]


class Gathering(Generic[T]):
    """The queue of ``rbx.scheduler.scoring_stage``, with a clock and calls that may fail.

    A call that fails or takes longer than ``within_s`` gives its prompts None. One that goes on regardless
    keeps its worker; while that holds for all workers, nobody waits: everyone gets None at once.
    """

    def __init__(
        self,
        queue: ScoringQueue,
        call: Callable[[list[str]], Awaitable[Sequence[T]]],
        clock: Callable[[], float],
        within_s: float,
    ) -> None:
        """``call`` answers texts in their order."""
        self._shape = queue
        self._work = call
        self._clock = clock
        self._within_s = within_s
        self._queue: deque[_Waiting[T]] = deque()
        self._free = queue.workers
        self._late = 0
        self._changed = asyncio.Event()
        self._pump: asyncio.Task[None] | None = None
        self._calls: set[asyncio.Task[None]] = set()
        self._closed = False

    @property
    def waiting(self) -> int:
        """Prompts whose call has not begun."""
        return len(self._queue)

    async def ask(self, text: str) -> Gathered[T] | None:
        """The answer to ``text``; cancelling it takes the prompt out of the queue."""
        if self._closed or self._late == self._shape.workers:
            _log.warning("scoring is closed or still busy with calls that took too long; a prompt not scored")
            return None
        waiting = _Waiting[T](text, self._clock(), asyncio.get_running_loop().create_future())
        self._queue.append(waiting)
        self._changed.set()
        if self._pump is None or self._pump.done():
            self._pump = asyncio.create_task(self._hand_out(), name="scoring queue")
        try:
            return await waiting.answer
        except asyncio.CancelledError:
            if waiting in self._queue:
                self._queue.remove(waiting)
            raise

    async def close(self) -> None:
        """Answer whoever waits with None, and begin no call more; calls under way are not waited for."""
        self._closed = True
        tasks = [*self._calls, *([] if self._pump is None else [self._pump])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._give_up()

    async def _hand_out(self) -> None:
        while self._queue and not self._closed:  # a wait that is over may swallow a cancellation
            wait_s = self._due_s() - self._clock() if self._free else None
            if wait_s is not None and wait_s <= 0:
                self._begin()
                continue
            self._changed.clear()
            try:
                await asyncio.wait_for(self._changed.wait(), wait_s)
            except asyncio.TimeoutError:
                continue

    def _due_s(self) -> float:
        """When the next call begins if a worker is free."""
        full = len(self._queue) >= self._shape.max_size
        return 0.0 if full else self._queue[0].asked_s + self._shape.window_s

    def _begin(self) -> None:
        count = min(len(self._queue), self._shape.max_size)
        taken = [self._queue.popleft() for _ in range(count)]
        self._free -= 1
        task = asyncio.create_task(self._call(taken), name="scoring call")
        self._calls.add(task)
        task.add_done_callback(self._calls.discard)

    async def _call(self, taken: list[_Waiting[T]]) -> None:
        began_s = self._clock()
        work = asyncio.ensure_future(self._work([waiting.text for waiting in taken]))
        try:
            await asyncio.wait({work}, timeout=self._within_s)
            if not work.done():
                _log.warning("a scoring call took more than %g s for %d prompts", self._within_s, len(taken))
                _answer(taken, [None] * len(taken))
                await self._outlast(work)
            elif (failure := work.exception()) is not None:
                _log.error("scoring failed: %s: %s", type(failure).__name__, failure)
            else:
                back_s = self._clock()
                _answer(taken, [Gathered(answer, began_s, back_s) for answer in work.result()])
        finally:
            work.cancel()
            _answer(taken, [None] * len(taken))
            self._free += 1
            self._changed.set()

    async def _outlast(self, work: asyncio.Future[Sequence[T]]) -> None:
        self._late += 1
        if self._late == self._shape.workers:
            self._give_up()
        try:
            await asyncio.wait({work})
        finally:
            self._late -= 1
            if work.done() and not work.cancelled():
                work.exception()  # looked at, so that nobody warns that it never was

    def _give_up(self) -> None:
        left, self._queue = list(self._queue), deque()
        _answer(left, [None] * len(left))


def _answer(taken: Sequence[_Waiting[T]], answers: Sequence[Gathered[T] | None]) -> None:
    """Answer those who have none yet; who has left needs none."""
    for waiting, answer in zip(taken, answers, strict=True):
        if not waiting.answer.done():
            waiting.answer.set_result(answer)
