"""What servers tell of their limits, beside what the pool says: other limits form other batches."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress

import aiohttp
import orjson

from rbx.config.endpoints import InstanceEndpoint
from rbx.config.launch import LocalLauncher, LocalTier, MockLauncher, RayLauncher
from rbx.config.pool import EngineLimits, Instance, Pool, Tier
from rbx.engine.instance_profile import StepCoefficients
from rbx.errors import EngineError
from rbx.serve.launch.vllm_command import given_number
from rbx.serve.state.gauges import parse_gauges
from rbx.serve.watch.addresses import Addresses
from rbx.serve.watch.exact import FetchedState, LocalState
from rbx.serve.watch.fetch import Unanswered, fetch

Limits = Mapping[str, int]  # those that are known, by their names in a pool file

_ANSWER_S = 5.0
_NAMES = tuple(EngineLimits.model_fields)


async def compared_limits(
    pool: Pool, endpoints: Mapping[str, InstanceEndpoint], launcher: object
) -> list[str]:
    """A line for every instance that is less or other than the pool says, then what none of them tells.

    ``launcher`` brought them up: what it asked for need not be told. Ask once all are ready.
    """
    async with aiohttp.ClientSession() as session:
        told = await asyncio.gather(
            *(told_limits(each, endpoints[each.name], session) for each in pool.instances)
        )
    known = [
        {**asked_limits(each.tier, launcher), **said} for each, said in zip(pool.instances, told, strict=True)
    ]
    return limit_lines(pool.instances, known)


def asked_limits(tier: Tier, launcher: object) -> Limits:
    """What an instance must have because it was started so."""
    if isinstance(launcher, MockLauncher):
        return tier.limits.model_dump()
    if isinstance(launcher, LocalLauncher | RayLauncher):
        return started_limits(tier, launcher.tier(tier))
    return {}


def started_limits(tier: Tier, how: LocalTier) -> Limits:
    """The limits that vLLM takes from its command line without changing them."""
    limits = tier.limits
    asked = {
        "max_num_seqs": given_number(how, "--max-num-seqs", limits.max_num_seqs),
        "max_num_batched_tokens": given_number(
            how, "--max-num-batched-tokens", limits.max_num_batched_tokens
        ),
        # vLLM on a CPU switches it off, whatever is asked for.
        "async_scheduling": None if how.gpus_of(tier) else 0,
    }
    return {name: value for name, value in asked.items() if value is not None}


async def told_limits(
    instance: Instance, endpoint: InstanceEndpoint, session: aiohttp.ClientSession
) -> Limits:
    """All limits where the instance publishes its state, else those on its public pages; no more than that
    where a page is missing or can't be read."""
    pages = Addresses.of(endpoint)

    async def page(address: str) -> bytes:
        return await fetch(session, address, pages.headers(address), _ANSWER_S)

    model = endpoint.served_name or instance.tier.model
    coefficients = StepCoefficients.of(instance.tier.step_time)
    with suppress(EngineError, Unanswered):  # the public pages tell less, and are still there
        if endpoint.state is not None:
            local = LocalState(endpoint.state, model, coefficients)
            local.open()
            return local.read(time.monotonic()).profile.limits.model_dump()
        if pages.state is not None:
            fetched = FetchedState(pages.state, coefficients)
            fetched.take(await page(pages.state), time.monotonic(), time.monotonic())
            return fetched.read(time.monotonic()).profile.limits.model_dump()
    told: dict[str, int] = {}
    with suppress(Unanswered):
        told |= _context(await page(pages.models), model)
    with suppress(Unanswered):
        told |= _cache((await page(pages.metrics)).decode("utf-8", "replace"))
    return told


def limit_lines(instances: Sequence[Instance], known: Sequence[Limits]) -> list[str]:
    """What ``compared_limits`` says, given what is known of each instance."""
    lines = []
    for instance, limits in zip(instances, known, strict=True):
        if found := differences(instance.tier.limits, limits):
            lines.append(
                f"warning: {instance.name} is not what the pool says: {'; '.join(found)}. What is simulated "
                "and predicted of it will be wrong: correct the pool file, or how the server is started"
            )
    silent = [name for name in _NAMES if any(name not in limits for limits in known)]
    if silent:
        count = sum(len(limits) < len(_NAMES) for limits in known)
        lines.append(
            f"{count} of {len(known)} instances do not tell {', '.join(silent)}: not compared with the pool"
        )
    return lines


def differences(limits: EngineLimits, known: Limits) -> list[str]:
    """``NAME 4 (pool 8)`` for what is less than in the pool, or other where more is as wrong.

    The cache is compared in tokens. A longer context or a larger cache than the pool's only goes unused.
    """
    found = []
    for name, value in known.items():
        ours = getattr(limits, name)
        if name == "kv_blocks":
            size = known.get("block_size", limits.block_size)
            if value * size < ours * limits.block_size:
                found.append(
                    f"KV cache of {value * size:,} tokens, {value} blocks of {size} "
                    f"(pool {ours * limits.block_size:,}, {ours} of {limits.block_size})"
                )
        elif value < ours if name == "max_model_len" else value != ours:
            found.append(f"{name} {_shown(value, ours)} (pool {_shown(ours, ours)})")
    return found


def _shown(value: int, like: int) -> str:
    return str(bool(value)).lower() if isinstance(like, bool) else str(value)


def _context(content: bytes, model: str) -> Limits:
    try:
        listed = {entry["id"]: entry.get("max_model_len") for entry in orjson.loads(content)["data"]}
        found = listed.get(model)
    except (orjson.JSONDecodeError, AttributeError, KeyError, TypeError):
        return {}
    return {"max_model_len": found} if isinstance(found, int) and found > 0 else {}


def _cache(text: str) -> Limits:
    """The smallest of the engines behind one address."""
    try:
        engines = parse_gauges(text, 0.0)
    except EngineError:
        return {}
    told = {}
    for name in ("block_size", "kv_blocks"):
        values = [getattr(engine, name) for engine in engines]
        if None not in values:
            told[name] = min(values)
    return told
