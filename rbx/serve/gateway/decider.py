"""Decisions of one configuration: the scheduler's runtime, driven by the event loop's clock."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, replace
from typing import Literal, TypeVar

import numpy as np

from rbx.heads.routers.head import RouterHead
from rbx.policy.view import Served
from rbx.scheduler.runtime import ClosedBatch, Decision, SchedulerRuntime
from rbx.serve.gateway.foresight import Foresight
from rbx.serve.gateway.live_table import LiveTable
from rbx.serve.gateway.restricted import RestrictedPolicy
from rbx.serve.gateway.scoring.stage import ScoredPrompt, ScoringStage
from rbx.serve.gateway.watching import Watching
from rbx.serve.upstream.breaker import Breakers
from rbx.serve.watch.sight import PoolSight

Mode = Literal["policy", "hopeless", "shed", "fallback", "unplaced"]
_WORDS: tuple[Mode, ...] = ("policy", "hopeless", "shed")  # rbx.policy.base.MODES
T = TypeVar("T")

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Placement:
    """Where a request goes; ``instance`` is −1 for nowhere.

    ``mode``: by the ``policy``'s rule, by its rule for ``hopeless`` requests, ``shed`` by it; ``unplaced``
    where no living instance can take the request; ``fallback``, the shortest queue, because the policy or
    the heads failed. ``name`` is the request's name at the watch, ``position`` its place in ``decision``;
    ``scored`` tells of a scoring call before the batch.
    """

    instance: int
    max_tokens: int
    quality: float
    length_tokens: float
    latency_s: float
    ttft_s: float
    mode: Mode
    name: str
    decided_s: float
    batch_size: int
    decision: Decision
    position: int
    scored: ScoredPrompt | None


@dataclass(frozen=True)
class Answered:
    """A request that was served to its end, as policies that learn are told."""

    row: int
    instance: int
    input_tokens: int
    output_tokens: int
    arrived_s: float
    first_token_s: float
    done_s: float


@dataclass
class _Waiting:
    """A request for a decision: what the watch will know of it, and who waits."""

    name: str
    streams: bool
    answer: asyncio.Future[Placement]


class Decider:
    """One decision loop. It runs while somebody waits and needs no end.

    Rows of ``live`` are taken by the caller and given back here, since a decision under way, or a policy
    that learns, may still look at them.
    """

    def __init__(
        self,
        runtime: SchedulerRuntime,
        policy: RestrictedPolicy,
        live: LiveTable,
        foresight: Foresight,
        watch: Watching,
        breakers: Breakers,
        clock: Callable[[], float],
        *,
        encode_s: float,
        eager: bool,
        router: RouterHead | None = None,
        stage: ScoringStage | None = None,
    ) -> None:
        """``policy`` is the one inside ``runtime``, ``router`` the trained one that it asks, if any;
        ``encode_s`` bounds the heads' time for a batch. With a ``stage`` prompts are scored there first."""
        self.live = live
        self._runtime = runtime
        self._policy = policy
        self._foresight = foresight
        self._watch = watch
        self._breakers = breakers
        self._clock = clock
        self._encode_s = encode_s
        self._eager = eager
        self._router = router
        self.stage = stage
        self._scored: dict[int, ScoredPrompt] = {}
        self._unread: set[int] = set()  # rows whose prompt could not be scored by the stage
        self._retired = False
        self._closing: asyncio.Task[None] | None = None
        self._waiting: dict[int, _Waiting] = {}
        self._deciding: set[int] = set()
        self._left: set[int] = set()
        self._answered: list[Answered] = []
        self._in_use = 0
        self._arrival = asyncio.Event()
        self._pump: asyncio.Task[None] | None = None

    @property
    def waiting(self) -> int:
        """Requests without a decision."""
        return len(self._waiting)

    @property
    def predicts(self) -> bool:
        """Whether the heads are asked about every prompt; else the means over training stand for it."""
        return self._runtime.needs.predictions

    async def start(self) -> None:
        """Get the stage ready, if there is one; raises what it can't start for, and leaves nothing then."""
        if self.stage is None:
            return
        try:
            await self.stage.start()
        except BaseException:
            await self.stage.close()
            raise

    def retire(self) -> None:
        """No request more comes: the stage is closed as soon as the last one has ended."""
        self._retired = True
        self._close_if_unused()

    @property
    def closed(self) -> bool:
        """Whether nothing of it is left to close."""
        return self.stage is None or (self._closing is not None and self._closing.done())

    async def close(self) -> None:
        """Close the stage now."""
        if self.stage is not None and self._closing is None:
            self._closing = asyncio.create_task(self.stage.close())
        if self._closing is not None:
            await self._closing

    def _close_if_unused(self) -> None:
        if self._retired and not self._in_use and self.stage is not None and self._closing is None:
            self._closing = asyncio.create_task(self.stage.close())

    def begin(self) -> None:
        """One more request is served under this configuration."""
        self._in_use += 1

    def end(self, row: int, answered: Answered | None) -> None:
        """It has ended: ``row`` may be used again as soon as nobody looks at it any more."""
        self._in_use -= 1
        self._scored.pop(row, None)
        self._unread.discard(row)
        self._close_if_unused()
        if answered is not None and self._runtime.needs.served:
            self._answered.append(answered)
        elif row in self._deciding:
            self._left.add(row)
        else:
            self.live.free(row)

    async def place(self, row: int, name: str, now_s: float, *, streams: bool) -> Placement:
        """Decide for ``row`` together with whoever else waits; the watch is told of the dispatch.

        Cancelling it takes the request out of the queue. Where there is a stage its prompt is scored first,
        once.
        """
        comes_s = now_s
        if self.stage is not None:
            await self._score(row, self.stage)
            comes_s = self._clock()
        waiting = _Waiting(name, streams, asyncio.get_running_loop().create_future())
        self._waiting[row] = waiting
        self._runtime.submit(row, comes_s, now_s)
        self._arrival.set()
        if self._pump is None or self._pump.done():
            self._pump = asyncio.create_task(self._decide_all())
            self._pump.add_done_callback(self._pump_ended)
        try:
            return await waiting.answer
        finally:
            if waiting.answer.cancelled() and row not in self._deciding:
                self._runtime.withdraw(row)
                self._waiting.pop(row, None)

    async def _score(self, row: int, stage: ScoringStage) -> None:
        if row in self._scored or not self._expected(row):
            return
        found = await stage.score(self.live.texts[row])
        if found is None:
            self._unread.add(row)
            return
        self._unread.discard(row)
        self._scored[row] = found
        self.live.predict(row, found.quality, found.length_tokens, found.router_score)

    def _expected(self, row: int) -> bool:
        """Take ``row`` for what is usual; whether it has a prompt that tells more."""
        usual = self._foresight
        self.live.predict(row, usual.mean_quality, usual.mean_length_tokens, usual.mean_quality)
        return bool(self.live.texts[row])

    async def _decide_all(self) -> None:
        while self._waiting:
            now_s = self._clock()
            due_s = self._due_s(now_s)
            if due_s <= now_s:
                await self._decide_batch(self._runtime.close(now_s))
                continue
            self._arrival.clear()
            try:
                await asyncio.wait_for(self._arrival.wait(), due_s - now_s)
            except asyncio.TimeoutError:
                continue

    def _due_s(self, now_s: float) -> float:
        """When the batch closes: at once if nothing is served but what waits here."""
        if self._eager and self._in_use <= len(self._waiting):
            return now_s
        return self._runtime.closes_s()

    async def _decide_batch(self, batch: ClosedBatch) -> None:
        rows = batch.requests.tolist()
        self._deciding = set(rows)
        for part, degraded in _parts(batch, await self._foresee(rows)):
            await self._decide_part(part, degraded)

    async def _decide_part(self, part: ClosedBatch, degraded: bool) -> None:
        decision, failure = await _settled(self._decide(part, degraded))
        if failure is not None:
            _log.error("a decision failed; the shortest queue takes its place", exc_info=failure)
            degraded = True
            decision = await self._decide(part, degraded)
        assert decision is not None
        self._deciding.difference_update(part.requests.tolist())
        self._tell(decision, degraded)

    async def _foresee(self, rows: list[int]) -> set[int]:
        """Fill in what is predicted of ``rows``; those that got the means though heads exist."""
        if self.stage is not None:
            return self._unread.intersection(rows)
        live = self.live
        asked = [row for row in rows if self._expected(row)]
        if not self._runtime.needs.predictions or not asked:
            return set()
        texts = [live.texts[row] for row in asked]
        found = await self._foresight.predict(texts, self._encode_s, self._router)
        if found is None:
            return set(rows)
        for row, *predicted in zip(asked, *found, strict=True):
            live.predict(row, *predicted)
        return set()

    async def _decide(self, batch: ClosedBatch, degraded: bool) -> Decision:
        now_s = self._clock()
        replays = self._runtime.needs.snapshots and not degraded
        sight = self._watch.view(now_s, snapshots=replays)
        allowed = [self._breakers.allows(i, now_s) for i in range(len(self._breakers))]
        self._policy.alive = sight.ready & np.array(allowed, dtype=np.bool_)
        self._policy.degraded = degraded
        if replays:
            # Replays take milliseconds; the others microseconds, less than a change of threads.
            return await asyncio.to_thread(self._assign, batch, sight, now_s)
        return self._assign(batch, sight, now_s)

    def _assign(self, batch: ClosedBatch, sight: PoolSight, now_s: float) -> Decision:
        self._learn()
        return self._runtime.decide(batch, sight.telemetry, now_s, sight.snapshots, sight.unseen)

    def _learn(self) -> None:
        if not self._answered:
            return
        told, self._answered = self._answered, []
        told.sort(key=lambda answered: answered.done_s)
        self._runtime.learn(
            Served(
                request=np.array([a.row for a in told], dtype=np.int64),
                instance=np.array([a.instance for a in told], dtype=np.int64),
                input_tokens=np.array([a.input_tokens for a in told], dtype=np.int64),
                output_tokens=np.array([a.output_tokens for a in told], dtype=np.int64),
                arrived_s=np.array([a.arrived_s for a in told]),
                first_token_s=np.array([a.first_token_s for a in told]),
                done_s=np.array([a.done_s for a in told]),
            )
        )
        for answered in told:
            self.live.free(answered.row)

    def _tell(self, decision: Decision, degraded: bool) -> None:
        """Tell the watch of every dispatch, then those who wait."""
        assignment, now_s = decision.assignment, self._clock()
        for k, row in enumerate(decision.requests.tolist()):
            waiting = self._waiting.pop(row)
            instance = int(assignment.instance[k])
            mode: Mode = "fallback" if degraded else _WORDS[int(assignment.mode[k])]
            if instance < 0 and mode != "shed":
                mode = "unplaced"
            placement = Placement(
                instance=instance,
                max_tokens=int(assignment.max_tokens[k]),
                quality=float(assignment.quality[k]),
                length_tokens=float(assignment.length_tokens[k]),
                latency_s=float(assignment.latency_s[k]),
                ttft_s=float(assignment.ttft_s[k]),
                mode=mode,
                name=waiting.name,
                decided_s=now_s,
                batch_size=len(decision.requests),
                decision=decision,
                position=k,
                scored=self._scored.get(row),
            )
            if waiting.answer.done():
                self._forgo(row)
                continue
            if instance >= 0:
                self._watch.dispatched(
                    instance,
                    waiting.name,
                    now_s,
                    int(self.live.columns.input_tokens[row]),
                    placement.max_tokens,
                    max(1, round(placement.length_tokens)),
                    streams=waiting.streams,
                )
            waiting.answer.set_result(placement)

    def _forgo(self, row: int) -> None:
        """The client left while its request was decided."""
        if row in self._left:
            self._left.discard(row)
            self.live.free(row)

    def _pump_ended(self, pump: asyncio.Task[None]) -> None:
        """Whatever stopped the loop, nobody is left waiting."""
        if pump.cancelled():
            failure: BaseException | None = asyncio.CancelledError()
        else:
            failure = pump.exception()
        if failure is None:
            return
        _log.error("the decision loop failed", exc_info=failure)
        self._deciding = set()
        self._runtime.abandon()
        stranded, self._waiting = self._waiting, {}
        for row, waiting in stranded.items():
            self._runtime.withdraw(row)
            self._forgo(row)
            if not waiting.answer.done():
                waiting.answer.set_exception(RuntimeError("the decision loop failed"))


def _parts(batch: ClosedBatch, unread: set[int]) -> Iterator[tuple[ClosedBatch, bool]]:
    """A batch as it is decided: what was read by the policy, then the rest, degraded."""
    apart = np.isin(batch.requests, list(unread))
    for chosen, degraded in ((~apart, False), (apart, True)):
        if chosen.any():
            yield replace(batch, requests=batch.requests[chosen], arrived_s=batch.arrived_s[chosen]), degraded


async def _settled(work: Awaitable[T]) -> tuple[T | None, BaseException | None]:
    """Result or failure of ``work``."""
    task = asyncio.ensure_future(work)
    await asyncio.wait({task})
    failure = task.exception()
    return (None, failure) if failure is not None else (task.result(), None)
