"""The gateway: takes requests on, has them placed, passes the answers on, and lets go of everything."""

from __future__ import annotations

import asyncio
import math
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rbx.config.gateway import GatewayConfig
from rbx.config.pool import Pool
from rbx.heads.bundle import Bundle
from rbx.policy.pool_state import PoolShape
from rbx.serve.event_loop import tell_end
from rbx.serve.exchange import UpstreamInstance
from rbx.serve.gateway.admitted import Admitted
from rbx.serve.gateway.decider import Answered
from rbx.serve.gateway.errors import ApiError, invalid, overloaded, unavailable, unknown_model
from rbx.serve.gateway.foresight import Foresight
from rbx.serve.gateway.knobs import TRACE
from rbx.serve.gateway.metrics import Metrics
from rbx.serve.gateway.passing import Passed, pass_plain, pass_stream
from rbx.serve.gateway.placing import Begun, Placer
from rbx.serve.gateway.readings import readings
from rbx.serve.gateway.reply import Reply
from rbx.serve.gateway.request import Asked
from rbx.serve.gateway.room import Room
from rbx.serve.gateway.targets import ttft_target_s
from rbx.serve.gateway.trace import trace
from rbx.serve.gateway.version import Surroundings, Version
from rbx.serve.gateway.versions import Versions
from rbx.serve.gateway.watching import Watching
from rbx.serve.upstream.breaker import Breakers

# A request that names one of these leaves the choice to the policy; so does one that names nothing.
FREE_MODELS = ("auto", "rbx")
CHECK_PERIOD_S = 1.0


class Gateway:
    """One scheduler in front of one pool. Make it inside the event loop that serves it."""

    def __init__(
        self,
        pool: Pool,
        bundle: Bundle | None,
        upstreams: Sequence[UpstreamInstance],
        watch: Watching,
        config: GatewayConfig,
        *,
        seed: int = 0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``upstreams`` and ``watch`` follow ``pool.instances``; without a bundle no policy may predict.

        Raises ``ConfigError`` for a policy that does not fit, ``BundleError`` for a bundle of another pool.
        """
        if bundle is not None:
            bundle.check_pool(pool)
        self.pool, self.bundle = pool, bundle
        self.instances = pool.instances  # and models: the pool's properties work them out at every call
        self.models = (*FREE_MODELS, *pool.models)
        self.metrics = Metrics()
        self.breakers = Breakers(config.breaker, [instance.tier.model for instance in pool.instances])
        self.foresight = Foresight(bundle, len(pool.models), config.max_output_tokens)
        self.watch = watch
        self.clock = clock
        self.draining = False
        self.in_flight = 0
        self._bound_to: Counter[int] = Counter()  # of those in flight, by the one model they can go to
        self._taken = 0
        self._name = uuid.uuid4().hex[:12]
        around = Surroundings(pool, bundle, self.foresight, watch, self.breakers, clock, seed)
        self.versions = Versions(config, around)
        self.placer = Placer(pool, upstreams, watch, self.breakers, self.metrics, clock)
        self._upstreams = tuple(upstreams)
        self._shape = PoolShape.of(pool)
        self.room = Room(self._shape.model)
        self._checks: asyncio.Task[None] | None = None
        self._serving: set[asyncio.Task[Any]] = set()
        self._cutting = False
        self.metrics.read(readings(self))

    async def start(self) -> None:
        """Begin to watch, and read the encoder in; raises what it can't be read in for."""
        await self.foresight.warm()
        await self.watch.start()
        await self.versions.warm(self.versions.current)
        self._checks = asyncio.create_task(self._check_progress(), name="the watch over progress")
        self._checks.add_done_callback(tell_end)

    async def stop(self) -> None:
        """Let go of everything, whatever of it fails; raises that then."""
        if self._checks is not None:
            self._checks.cancel()
            await asyncio.gather(self._checks, return_exceptions=True)
        async with AsyncExitStack() as last_first:
            last_first.callback(self.foresight.close)
            last_first.push_async_callback(self.versions.close)
            for upstream in self._upstreams:
                last_first.push_async_callback(upstream.close)
            last_first.push_async_callback(self.watch.stop)

    def routable(self) -> NDArray[np.bool_]:
        """Which instances a request may be sent to now, (I,)."""
        now_s = self.clock()
        allowed = [self.breakers.allows(i, now_s) for i in range(len(self.breakers))]
        return np.asarray(self.watch.view(now_s, snapshots=False).ready & np.array(allowed, dtype=np.bool_))

    async def drain(self, within_s: float) -> bool:
        """Take on nothing more, and wait for what is served; whether all of it ended in time."""
        self.draining = True
        until_s = self.clock() + within_s
        while self.in_flight and self.clock() < until_s:
            await asyncio.sleep(0.02)
        return self.in_flight == 0

    def cut(self) -> None:
        """End what is served still: clients get 503, or an error event in a stream that has begun."""
        self._cutting = True
        for task in self._serving:
            task.cancel()

    async def serve(self, asked: Asked, arrived_s: float, request_id: str | None, reply: Reply) -> None:
        """Answer one request, whatever happens; cancelling it releases all that it holds."""
        headers: dict[str, str] = {}
        try:
            version, allowed = self._admit(asked)
            headers["x-rbx-config-version"] = version.label
            with self._cuttable(reply, version):
                await self._served(asked, version, allowed, arrived_s, request_id, reply, headers)
        except ApiError as error:
            if reply.status is None:
                await reply.refuse(error, headers)
            else:
                await reply.end(error.event)

    @contextmanager
    def _cuttable(self, reply: Reply, version: Version) -> Iterator[None]:
        """Raises ``ApiError`` when this task is cut, if its client can still be told."""
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        try:
            yield
        except asyncio.CancelledError:
            if not self._cutting or reply.ended:
                raise
            retry_s = version.config.admission.retry_after_s
            raise unavailable("the gateway has shut down", retry_s, "draining") from None
        finally:
            self._serving.discard(task)

    def check_room(self, model: int | None = None) -> None:
        """Raises ``ApiError`` where no request more is taken on, or none for ``model`` alone."""
        version = self.versions.current
        admission = version.config.admission
        if self.draining:
            self.metrics.shed.labels("draining").inc()
            raise unavailable("the gateway is shutting down", admission.retry_after_s, "draining")
        full = self.in_flight >= self.room.most(version) or version.decider.live.free_rows == 0
        if full or (model is not None and self._bound_to[model] >= self.room.most(version, model)):
            self.metrics.shed.labels("in_flight").inc()
            raise overloaded("too many requests are served at once", admission.retry_after_s)
        if self.placer.undecided >= admission.max_waiting:
            self.metrics.shed.labels("waiting").inc()
            raise overloaded("too many requests wait for an instance", admission.retry_after_s)

    def _admit(self, asked: Asked) -> tuple[Version, int | None]:
        """Under which version, and for which model alone; raises ``ApiError``."""
        version = self.versions.current
        model = self._model(asked)
        self._check_size(asked, model)
        if asked.knobs.weights is not None and version.policy.kind != "routebalance":
            message = f"the policy in force, {version.policy.label}, has no weights"
            raise invalid("x-rbx-weights", message, "not_supported")
        self.check_room(version.only_model if model is None else model)
        return version, model

    def _model(self, asked: Asked) -> int | None:
        if asked.model is None or asked.model in FREE_MODELS:
            return None
        if asked.model not in self.models:
            raise unknown_model(asked.model, self.models)
        return self.models.index(asked.model) - len(FREE_MODELS)

    def _check_size(self, asked: Asked, model: int | None) -> None:
        lengths = self._shape.max_model_len
        longest = int(lengths.max() if model is None else lengths[self._shape.model == model].max())
        if asked.input_tokens + 1 > longest:
            where = "messages" if asked.path == "chat/completions" else "prompt"
            of = "" if model is None else f" for {asked.model}"
            message = (
                f"about {asked.input_tokens} tokens leave no room for an answer: the longest context "
                f"served{of} is {longest} tokens (max_model_len)"
            )
            raise invalid(where, message, "context_length_exceeded")

    async def _served(
        self,
        asked: Asked,
        version: Version,
        model: int | None,
        arrived_s: float,
        request_id: str | None,
        reply: Reply,
        headers: dict[str, str],
    ) -> None:
        request = self._enter(asked, version, model, arrived_s, request_id)
        decider = version.decider
        only = version.only_model if model is None else model
        if only is not None:
            self._bound_to[only] += 1
        begun: Begun | None = None
        answered: Answered | None = None
        try:
            begun = await self.placer.begin(request)
            headers.update(self._headers(request, begun))
            passed = await self._pass(request, begun, reply, headers)
            answered = self._settle(request, begun, passed)
        finally:
            if begun is not None:
                begun.attempt.abandoned(self.clock())
                if answered is None:
                    self._count(begun)
                await begun.exchange.close()
            self.in_flight -= 1
            if only is not None:
                self._bound_to[only] -= 1
            decider.end(request.row, answered)

    def _enter(
        self, asked: Asked, version: Version, model: int | None, arrived_s: float, request_id: str | None
    ) -> Admitted:
        config, live = version.config, version.decider.live
        max_tokens = asked.max_tokens or config.max_output_tokens
        ttft_s = asked.knobs.ttft_s
        if not math.isfinite(ttft_s):
            ttft_s = ttft_target_s(config.slo, asked.input_tokens)
        row = live.take(asked.text, asked.input_tokens, max_tokens, asked.knobs.budget_usd, ttft_s)
        if model is not None:
            live.allowed[row] = self._shape.model == model
            live.named[row] = True
        if asked.knobs.weights is not None:
            live.weights[row] = asked.knobs.weights
        self.in_flight += 1
        version.decider.begin()
        e2e_s = asked.knobs.e2e_s
        if not math.isfinite(e2e_s):
            e2e_s = config.slo.e2e_s or math.inf
        self._taken += 1
        # Clients may give one id to several requests; at the watch and at the servers each has its own.
        own_id = f"{request_id or self._name}-{self._taken:x}"
        return Admitted(own_id, asked, version, row, arrived_s, max_tokens, ttft_s, e2e_s)

    def _headers(self, request: Admitted, begun: Begun) -> dict[str, str]:
        instance = self.instances[begun.placement.instance]
        told = {
            **begun.exchange.headers,
            "x-rbx-instance": instance.name,
            "x-rbx-model": instance.tier.model,
            "x-rbx-decision-ms": f"{1e3 * begun.decision_s:.3f}",
            "x-rbx-decision-mode": begun.placement.mode,
            "x-rbx-attempts": str(begun.attempts),
            "x-rbx-request-id": request.id,
        }
        if request.asked.knobs.traced:
            told[TRACE] = trace(request, begun)
        return told

    async def _pass(
        self, request: Admitted, begun: Begun, reply: Reply, headers: Mapping[str, str]
    ) -> Passed:
        if not request.asked.stream:
            return await pass_plain(begun, reply, headers, self.clock)
        name = self.instances[begun.placement.instance].name
        passed = await pass_stream(
            begun, reply, headers, self.clock, name=name, wants_usage=request.asked.wants_usage
        )
        if passed.fault is not None:
            self.placer.note(passed.fault, begun.placement.instance)
        return passed

    def _settle(self, request: Admitted, begun: Begun, passed: Passed) -> Answered | None:
        """Count an answer that came to its end, and say how it went."""
        self._count(begun)
        account, metrics = begun.account, self.metrics
        model = self.instances[begun.placement.instance].tier.model
        if account.budgeted:
            metrics.budgets.labels(str(account.exhausted).lower()).inc()
            metrics.budget_usd.inc(account.budget_usd)
            metrics.budgeted_cost_usd.inc(account.cost_usd)
        for target, limit_s, at_s in (
            ("ttft", request.ttft_s, passed.first_token_s),
            ("e2e", request.e2e_s, passed.done_s),
        ):
            if math.isfinite(limit_s):
                met = at_s is not None and passed.fault is None and at_s - request.arrived_s <= limit_s
                metrics.targets.labels(target, str(met).lower()).inc()
        tpot_s = request.version.config.slo.tpot_s
        if tpot_s is not None and request.asked.stream:  # a plain answer shows no token before its last
            met = passed.fault is None and _keeps_pace(passed, account.output_tokens, tpot_s)
            metrics.targets.labels("tpot", str(met).lower()).inc()
        if passed.first_token_s is None or passed.done_s is None:
            return None
        metrics.ttft_seconds.labels(model).observe(passed.first_token_s - request.arrived_s)
        metrics.e2e_seconds.labels(model).observe(passed.done_s - request.arrived_s)
        return Answered(
            row=request.row,
            instance=begun.placement.instance,
            input_tokens=account.input_tokens,
            output_tokens=max(1, account.output_tokens),
            arrived_s=request.arrived_s,
            first_token_s=passed.first_token_s,
            done_s=passed.done_s,
        )

    def _count(self, begun: Begun) -> None:
        """Tokens and cost, of answers that were cut as well: the server has worked for them."""
        account, instance = begun.account, self.instances[begun.placement.instance]
        model = instance.tier.model
        if account.disbelieved:
            self.metrics.disbelieved.labels(instance.name).inc()
        self.metrics.tokens.labels(model, "input").inc(account.input_tokens)
        self.metrics.tokens.labels(model, "output").inc(account.output_tokens)
        self.metrics.cost_usd.labels(model).inc(account.cost_usd)

    async def _check_progress(self) -> None:
        """The breakers' rule of progress, and for how many requests there is room, every second."""
        n = len(self.instances)
        while True:
            await asyncio.sleep(CHECK_PERIOD_S)
            now_s, load = self.clock(), self.placer.load
            counted_s = self.watch.counted_s(now_s)
            busy = [
                load.streams[i] > 0 or (load.in_flight[i] > 0 and counted_s[i] > -math.inf) for i in range(n)
            ]
            for i in self.breakers.check(now_s, busy, counted_s):
                self.placer.recall(i)
            self.room.see(self.routable())


def _keeps_pace(passed: Passed, output_tokens: int, tpot_s: float) -> bool:
    """Whether the tokens of an answer came within ``tpot_s`` of each other on average; one alone does."""
    if passed.first_token_s is None or passed.done_s is None:
        return False
    return passed.done_s - passed.first_token_s <= max(0, output_tokens - 1) * tpot_s
