"""Every instance of a pool, watched: what a gateway decides by."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import aiohttp
import numpy as np

from rbx.config.endpoints import InstanceEndpoint
from rbx.config.gateway import Watch
from rbx.config.pool import Instance, Pool
from rbx.engine.instance_profile import InstanceProfile
from rbx.engine.instance_snapshot import InstanceSnapshot
from rbx.engine.snapshot_counts import N_LOAD, count, load_telemetry, pool_telemetry
from rbx.errors import ConfigError
from rbx.heads.bea.unseen import NOTHING_UNSEEN, UnseenRequests
from rbx.serve.event_loop import tell_end
from rbx.serve.state.exact import ExactState
from rbx.serve.state.ladder import BestState
from rbx.serve.watch.addresses import Addresses
from rbx.serve.watch.beat import Pace, beat
from rbx.serve.watch.exact import FetchedState, LocalState
from rbx.serve.watch.instance import SHADOW, InstanceWatch
from rbx.serve.watch.kernels import compile_kernels
from rbx.serve.watch.pages import Pages
from rbx.serve.watch.sight import Bools, Ints, PoolSight


class PoolWatch:
    """Follows every instance by our own requests, and by its pages between ``start`` and ``stop``.

    All times are of ``clock``, which must be the host's monotonic one where published states are read.
    Instances are named by their place in ``pool.instances``. Nothing here waits for an instance but the
    tasks in the background.
    """

    def __init__(
        self,
        pool: Pool,
        endpoints: Sequence[InstanceEndpoint],
        config: Watch,
        profiles: Sequence[InstanceProfile] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``profiles`` are those of the pool file unless given.

        Raises ``ConfigError`` if there is not one endpoint and profile for each instance, or a key is not
        in the environment.
        """
        instances = pool.instances
        given = [InstanceProfile.of(each.tier) for each in instances] if profiles is None else profiles
        if not len(instances) == len(endpoints) == len(given):
            raise ConfigError(
                f"pool {pool.name} has {len(instances)} instances, and there are {len(endpoints)} endpoints "
                f"and {len(given)} profiles; give one for each"
            )
        self._config, self._clock, self._profiles = config, clock, tuple(given)
        self._pace = Pace(config.period_s)
        self._names = tuple(instance.name for instance in instances)
        self._addresses = tuple(Addresses.of(endpoint) for endpoint in endpoints)
        self._local: list[LocalState | None] = []
        self._fetched: list[FetchedState | None] = []
        self._watches = tuple(
            self._watch(*each) for each in zip(instances, endpoints, given, self._addresses, strict=True)
        )
        self._failures: Counter[tuple[str, str, str]] = Counter()
        self._session: aiohttp.ClientSession | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._bests: tuple[BestState, ...] = ()
        self._sight: PoolSight | None = None
        self._total_blocks: Ints = np.array([each.limits.kv_blocks for each in given], dtype=np.int64)

    async def start(self) -> None:
        """Compile, and begin asking; returns when each page was tried once, after some ``timeout_s``."""
        await asyncio.to_thread(compile_kernels, self._profiles[0])
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0), auto_decompress=False, trust_env=False
        )
        tried = []
        for i, watch in enumerate(self._watches):
            pages = Pages(self._addresses[i], watch, self._session, self._clock)
            for k, (signal, ask) in enumerate(self._questions(i, pages)):
                tried.append(asyncio.Event())
                failed = partial(self._failed, self._names[i], signal)
                rng = random.Random(f"{i} {k}")
                asking = beat(ask, failed, self._pace, rng, tried[-1])
                task = asyncio.create_task(asking, name=f"watch {self._names[i]} {signal}")
                task.add_done_callback(tell_end)  # its signal grows old, as with a dead server
                self._tasks.append(task)
        await asyncio.gather(*(event.wait() for event in tried))

    async def stop(self) -> None:
        """End the tasks and close their connections; raises what a task has failed by."""
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        ends = await asyncio.gather(*tasks, return_exceptions=True)
        if self._session is not None:
            await self._session.close()
            self._session = None
        for end in ends:
            if isinstance(end, Exception):
                raise end

    def configure(self, config: Watch) -> None:
        """Watch by ``config`` from now on; another period begins with a question to every page."""
        if config.period_s != self._config.period_s:
            self._pace.change(config.period_s)
        self._config = config
        for watch in self._watches:
            watch.config = config

    def dispatched(
        self,
        i: int,
        request_id: str,
        now_s: float,
        prompt_tokens: int,
        cap_tokens: int,
        predicted_tokens: int = 0,
        *,
        streams: bool = True,
    ) -> None:
        """A request goes to instance ``i``, with ``X-Request-Id: request_id`` if its state is published.

        Tell it before the next decision. Predicted 0 stands for no prediction. Raises ``EngineError`` for
        sizes that no engine would take.
        """
        sizes = prompt_tokens, cap_tokens, predicted_tokens
        self._watches[i].dispatched(request_id, now_s, *sizes, streams=streams)

    def tokens(self, i: int, request_id: str, now_s: float, output_tokens_so_far: int) -> None:
        """The answer has so many tokens by now."""
        self._watches[i].tokens(request_id, now_s, output_tokens_so_far)

    def ended(self, i: int, request_id: str, now_s: float) -> None:
        """The request has finished, failed or been given up at instance ``i``; told twice it counts once."""
        self._watches[i].ended(request_id, now_s)

    def instance(self, i: int) -> InstanceWatch:
        """The watch of one instance."""
        return self._watches[i]

    @property
    def in_flight(self) -> Ints:
        """Our requests at each instance that have not ended, (I,)."""
        return np.array([watch.in_flight for watch in self._watches], dtype=np.int64)

    @property
    def failures(self) -> Mapping[tuple[str, str, str], int]:
        """Failed tries by instance, signal (``gauges``, ``probe``, ``state``) and reason."""
        return dict(self._failures)

    @property
    def fallbacks(self) -> Mapping[tuple[str, str], int]:
        """How often a source of an instance's state was passed over: instance, then ``source: reason``."""
        return {
            (name, why): times
            for name, watch in zip(self._names, self._watches, strict=True)
            for why, times in watch.fallbacks.items()
        }

    @property
    def restarts(self) -> Ints:
        """How often each instance was found to be another process than before, (I,)."""
        return np.array([watch.restarts for watch in self._watches], dtype=np.int64)

    def ages_s(self, now_s: float) -> tuple[Mapping[str, float], ...]:
        """For each instance how old its signals are, by name; infinite for what was never had."""
        return tuple(watch.ages_s(now_s) for watch in self._watches)

    def ready(self, now_s: float) -> Bools:
        """Which instances have lately answered a probe or given a token, (I,)."""
        return np.array([watch.ready(now_s) for watch in self._watches], dtype=np.bool_)

    def counted_s(self, now_s: float) -> tuple[float, ...]:
        """When the counters on each instance's page last rose, (I,); −inf where they can't tell."""
        return tuple(watch.counted_s(now_s) for watch in self._watches)

    def view(self, now_s: float, *, snapshots: bool = True) -> PoolSight:
        """The pool now; calls within a millisecond may get one answer unless something was sent or ended.

        Without ``snapshots`` there are none in it, and what it counts is counted without making any.
        Raises ``EngineError`` only if ``now_s`` is no time.
        """
        if not snapshots:
            return self._counted(now_s)
        bests = tuple(watch.best(now_s) for watch in self._watches)
        same = self._sight is not None and all(map(_is, bests, self._bests))
        if self._sight is None or not same or len(bests) != len(self._bests):
            self._bests, self._sight = bests, self._sighted(bests, now_s)
        return self._sight

    def _sighted(self, bests: Sequence[BestState], now_s: float) -> PoolSight:
        pairs = tuple(zip(self._watches, bests, strict=True))
        age_s = np.array([watch.age_s(best, now_s) for watch, best in pairs])
        received = np.array([watch.received(best) for watch, best in pairs], dtype=np.int64)
        snapshots = tuple(_not_after(best.reading.snapshot, now_s) for best in bests)
        return PoolSight(
            now_s=now_s,
            telemetry=pool_telemetry(snapshots, received, now_s - age_s),
            snapshots=snapshots,
            unseen=tuple(_sent_by(best.unseen, now_s) for best in bests),
            rungs=tuple(best.rung for best in bests),
            age_s=age_s,
            ready=self.ready(now_s),
            in_flight=self.in_flight,
        )

    def _counted(self, now_s: float) -> PoolSight:
        """The sight less its snapshots; one is made only of instances that can't be counted without."""
        n = len(self._watches)
        rows: Ints = np.empty((n, N_LOAD), dtype=np.int64)
        rungs, unseen = [SHADOW] * n, [NOTHING_UNSEEN] * n
        ages, received, total_blocks = [0.0] * n, [0] * n, self._total_blocks.copy()
        for i, watch in enumerate(self._watches):
            load = watch.load(now_s)
            if load is not None:
                rows[i], ages[i], received[i] = load, watch.guess_age_s(now_s), watch.received()
                continue
            best = watch.best(now_s)
            snapshot = best.reading.snapshot
            count(snapshot, rows[i])
            total_blocks[i] = snapshot.profile.limits.kv_blocks  # the server's own, if it tells
            ages[i], received[i] = watch.age_s(best, now_s), watch.received(best)
            rungs[i], unseen[i] = best.rung, _sent_by(best.unseen, now_s)
        age_s = np.array(ages)
        counted = np.array(received, dtype=np.int64)
        telemetry = load_telemetry(rows, total_blocks, counted, now_s - age_s)
        told = tuple(unseen), tuple(rungs), age_s, self.ready(now_s), self.in_flight
        return PoolSight(now_s, telemetry, (), *told)

    def _watch(
        self, instance: Instance, endpoint: InstanceEndpoint, profile: InstanceProfile, addresses: Addresses
    ) -> InstanceWatch:
        exact: list[tuple[str, ExactState]] = []
        local = fetched = None
        if endpoint.state is not None:
            model = endpoint.served_name or instance.tier.model
            local = LocalState(endpoint.state, model, profile.coefficients)
            exact.append(("state", ExactState(local, "completions", "chat/completions")))
        if addresses.state is not None:
            fetched = FetchedState(addresses.state, profile.coefficients)
            exact.append(("state_url", ExactState(fetched, "completions", "chat/completions")))
        self._local.append(local)
        self._fetched.append(fetched)
        return InstanceWatch(profile, exact, self._config, self._clock())

    def _questions(self, i: int, pages: Pages) -> list[tuple[str, Callable[[], Awaitable[None]]]]:
        asked: list[tuple[str, Callable[[], Awaitable[None]]]] = [
            ("gauges", pages.scrape),
            ("probe", pages.probe),
        ]
        local, fetched, address = self._local[i], self._fetched[i], self._addresses[i].state
        if local is not None:
            asked.append(("state", partial(pages.open_state, local)))
        if fetched is not None and address is not None:
            asked.append(("state_url", partial(pages.fetch_state, address, fetched)))
        return asked

    def _failed(self, name: str, signal: str, reason: str) -> None:
        self._failures[name, signal, reason] += 1


def _is(one: BestState, other: BestState) -> bool:
    return one is other


def _not_after(snapshot: InstanceSnapshot, now_s: float) -> InstanceSnapshot:
    """Published while we looked at the clock, it counts as of now."""
    if snapshot.stamp_s <= now_s:
        return snapshot
    starts_s = np.minimum(snapshot.step_start_s, now_s)  # NaN stays
    return replace(snapshot, stamp_s=now_s, step_start_s=starts_s)


def _sent_by(unseen: UnseenRequests, now_s: float) -> UnseenRequests:
    if not len(unseen.dispatched_s) or unseen.dispatched_s[-1] <= now_s:
        return unseen
    return replace(unseen, dispatched_s=np.minimum(unseen.dispatched_s, now_s))
