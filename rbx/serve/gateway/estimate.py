"""``/v1/estimate``: what the gateway expects of a prompt, model by model, without sending it anywhere."""

from __future__ import annotations

import asyncio
import math
from functools import partial
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray
from starlette.types import Receive, Scope, Send

from rbx.config.pool import Pool
from rbx.policy.base import Policy
from rbx.policy.candidates import possible
from rbx.policy.pool_state import PoolShape, PoolState
from rbx.policy.request_table import RequestTable
from rbx.policy.view import PoolView
from rbx.serve.gateway.errors import ApiError, overloaded, unavailable
from rbx.serve.gateway.gateway import Gateway
from rbx.serve.gateway.incoming import ClientLeft, Intake, headers_of
from rbx.serve.gateway.reply import Reply
from rbx.serve.gateway.request import Asked, read_either
from rbx.serve.gateway.targets import ttft_target_s
from rbx.serve.watch.sight import PoolSight

# Each takes a thread for as long as a policy needs to predict every instance, and decisions need one too.
MOST_AT_ONCE = 4


class EstimateEndpoint:
    """Takes the body of a chat or of a completion; the policy in force says how long each instance takes."""

    def __init__(self, gateway: Gateway, intake: Intake) -> None:
        """Bind the gateway."""
        self._gateway = gateway
        self._intake = intake
        self._under_way = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        reply = Reply(send)
        try:
            told = await self._answered(receive, headers_of(scope))
        except ApiError as error:
            await reply.refuse(error, {})
        except ClientLeft:
            return
        else:
            await reply.whole(200, {"content-type": "application/json"}, orjson.dumps(told))

    async def _answered(self, receive: Receive, headers: dict[str, str]) -> dict[str, Any]:
        raw = await self._intake.body(receive, headers)
        try:
            if self._under_way >= MOST_AT_ONCE:
                self._gateway.metrics.shed.labels("estimate").inc()
                raise overloaded(f"{MOST_AT_ONCE} estimates are under way already", 1.0)
            self._under_way += 1
            try:
                asked = await self._intake.read(len(raw), partial(read_either, raw, headers))
                return await self._estimated(asked)
            finally:
                self._under_way -= 1
        finally:
            self._intake.let_go(len(raw))

    async def _estimated(self, asked: Asked) -> dict[str, Any]:
        gateway = self._gateway
        version, foresight = gateway.versions.current, gateway.foresight
        quality, length = foresight.mean_quality, foresight.mean_length_tokens
        router_score = quality
        source = "mean"
        if foresight.at_hand and asked.text:
            found = await foresight.predict([asked.text], version.config.deadlines.encode_s, version.router)
            if found is None:
                raise unavailable("the heads do not answer", 1.0, "no_prediction")
            (quality,), (length,), (router_score,) = found
            source = "heads"
        config = version.config
        max_tokens = asked.max_tokens or config.max_output_tokens
        ttft_s = asked.knobs.ttft_s
        if not math.isfinite(ttft_s):
            ttft_s = ttft_target_s(config.slo, asked.input_tokens)
        table = RequestTable(
            input_tokens=np.array([asked.input_tokens]),
            max_tokens=np.array([max_tokens]),
            budget_usd=np.array([asked.knobs.budget_usd]),
            quality=np.array([quality]),
            length_tokens=np.maximum(np.array([length]), 1.0),
            ttft_target_s=np.array([ttft_s]),
            router_score=np.array([router_score]),
        )
        now_s = gateway.clock()
        policy = version.fresh_policy()
        rows = await asyncio.to_thread(
            _instances,
            gateway.pool,
            policy,
            table,
            gateway.watch.view(now_s),
            gateway.routable(),
            now_s,
            config.scheduler.network_s,
        )
        known = foresight.at_hand
        return {
            "input_tokens": asked.input_tokens,
            "predictions": source,
            "policy": version.policy.label,
            "config_version": version.label,
            "models": _models(gateway.pool, table, known=known),
            "instances": rows,
        }


def _models(pool: Pool, table: RequestTable, *, known: bool) -> list[dict[str, Any]]:
    """Quality, length and cost on the cheapest tier of each model; quality null where no heads are."""
    tokens_in, cap = int(table.input_tokens[0]), int(table.max_tokens[0])
    rows = []
    for m, model in enumerate(pool.models):
        length = min(float(table.length_tokens[0, m]), float(cap))
        cost = min(
            tokens_in * tier.price_in_usd_per_mtok + length * tier.price_out_usd_per_mtok
            for tier in pool.tiers
            if tier.model == model
        )
        quality = float(table.quality[0, m]) if known else None
        rows.append({"model": model, "quality": quality, "output_tokens": length, "cost_usd": cost / 1e6})
    return rows


def _instances(
    pool: Pool,
    policy: Policy,
    table: RequestTable,
    sight: PoolSight,
    routable: NDArray[np.bool_],
    now_s: float,
    network_s: float,
) -> list[dict[str, Any]]:
    """What the policy predicts of each instance: it is asked with that one alone in the pool."""
    shape = PoolShape.of(pool)
    row = np.zeros(1, dtype=np.int64)
    view = PoolView(
        now_s,
        now_s + network_s,
        network_s,
        np.array([now_s]),
        sight.telemetry,
        sight.snapshots,
        sight.unseen,
    )
    rows = []
    for instance in pool.instances:
        state = PoolState.idle(len(pool.instances))
        state.show(sight.telemetry)
        state.alive[:] = np.arange(len(pool.instances)) == instance.index
        fits = bool(possible(int(table.input_tokens[0]), shape, state)[instance.index])
        answer = policy.assign(row, table, view, state)
        rows.append(
            {
                "instance": instance.name,
                "model": instance.tier.model,
                "routable": bool(routable[instance.index]),
                "fits": fits,
                "latency_s": _number(answer.latency_s[0]),
                "ttft_s": _number(answer.ttft_s[0]),
                "running": int(sight.telemetry.running[instance.index]),
                "waiting": int(sight.telemetry.waiting[instance.index]),
            }
        )
    return rows


def _number(value: float) -> float | None:
    """JSON has no NaN."""
    return float(value) if math.isfinite(value) else None
