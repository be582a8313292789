"""Waiting until a target can be sent the cell's requests."""

from __future__ import annotations

import asyncio

from rbx.config.pool import Pool
from rbx.serve.watch.fetch import Unanswered
from rbx.sweep.live.asking import Asker, bearer
from rbx.sweep.live.fault import TargetFault
from rbx.sweep.live.identity import Listed, listed_models

PAUSE_S = 0.25
_SHOWN = 8  # instances in a message


async def await_gateway(asker: Asker, url: str, pool: Pool, within_s: float) -> None:
    """Wait until the gateway at ``url`` can route to every instance of the pool.

    A pool with instances missing is another pool. Raises ``TargetFault`` with what is missing.
    """
    loop = asyncio.get_running_loop()
    until_s = loop.time() + within_s
    while why := await _why_not(asker, f"{url}/readyz", pool):
        if loop.time() >= until_s:
            raise TargetFault("not_ready", f"{url} is not ready after {within_s:g} s: {why}")
        await asyncio.sleep(PAUSE_S)


async def _why_not(asker: Asker, address: str, pool: Pool) -> str:
    try:
        answer = await asker.get(address)
    except Unanswered as fault:
        return f"no answer ({fault}); start it with rbx serve or rbx launch"
    data = answer.json
    models = data.get("models") if isinstance(data, dict) else None
    if not isinstance(models, dict):
        return f"HTTP {answer.status} at {address}, and no list of instances: is it a gateway of ours?"
    if data.get("draining"):
        return "it is shutting down"
    usable = {name for names in models.values() if isinstance(names, list) for name in names}
    names = [instance.name for instance in pool.instances]
    missing = [name for name in names if name not in usable]
    if not missing:
        return ""
    more = f" and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else ""
    return (
        f"{len(missing)} of {len(names)} instances of pool {pool.name} can't be routed to: "
        f"{', '.join(missing[:_SHOWN])}{more}"
    )


async def await_endpoint(asker: Asker, url: str, key: str | None, model: str, within_s: float) -> Listed:
    """Wait until ``/models`` below ``url`` answers, and return what it lists.

    Raises ``TargetFault`` where it never does, refuses the key or serves other models.
    """
    loop = asyncio.get_running_loop()
    until_s = loop.time() + within_s
    address = f"{url}/models"
    while True:
        try:
            answer = await asker.get(address, bearer(key))
            why = f"HTTP {answer.status}"
        except Unanswered as fault:
            answer, why = None, f"no answer ({fault})"
        if answer is not None and answer.status in (401, 403):
            how = "give live.target.api_key_env, the environment variable with its key"
            raise TargetFault("not_ready", f"{address} refuses us (HTTP {answer.status}); {how}")
        if answer is not None and answer.ok:
            listed = listed_models(answer)
            if model in listed.names:
                return listed
            raise TargetFault("wrong_model", f"{url} serves {listed.shown}, not {model!r}")
        if loop.time() >= until_s:
            raise TargetFault("not_ready", f"{address} is not ready after {within_s:g} s: {why}")
        await asyncio.sleep(PAUSE_S)
