"""Waiting until every instance answers as the model that the pool says."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from dataclasses import dataclass

import aiohttp
import orjson

from rbx.config.endpoints import InstanceEndpoint
from rbx.errors import ServerError
from rbx.serve.watch.addresses import Addresses

PAUSE_S = 0.5
_ANSWER_S = 5.0
_MOST_BYTES = 1 << 20
_SHOWN = 5


@dataclass
class Awaited:
    """One instance that is to serve ``model``; ``why`` says why it is not ready, empty once it is."""

    name: str
    endpoint: InstanceEndpoint
    model: str
    why: str = "not asked yet"

    @property
    def ready(self) -> bool:
        """Whether it has answered as it should."""
        return not self.why


async def await_ready(instances: list[Awaited], within_s: float, told: Callable[[Awaited], None]) -> None:
    """Ask ``/v1/models`` of each until it lists the model; ``told`` of each that does.

    Raises ``ServerError`` with all that serve other models as soon as one does, or with those that are not
    ready in time; ``ConfigError`` where the environment lacks an endpoint's key.
    """
    asked = {each.name: Addresses.of(each.endpoint) for each in instances}
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=_ANSWER_S)) as session:

        async def one(each: Awaited) -> None:
            while True:
                await _ask(each, asked[each.name], session)
                if each.ready:
                    told(each)
                    return
                await asyncio.sleep(PAUSE_S)

        tasks = [asyncio.ensure_future(one(each)) for each in instances]
        try:
            done, late = await asyncio.wait(tasks, timeout=within_s, return_when=asyncio.FIRST_EXCEPTION)
            if any(task.exception() for task in done):
                # The others are asked once more, so that nobody has to correct one address after the other.
                await _cancelled(late)
                asking = (
                    task if task in done else _ask(each, asked[each.name], session)
                    for each, task in zip(instances, tasks, strict=True)
                )
                _refuse(await asyncio.gather(*asking, return_exceptions=True))
            if late:
                whys = [f"  {each.name} at {each.endpoint.url}: {each.why}" for each in instances if each.why]
                raise ServerError(
                    f"{len(whys)} of {len(instances)} instances are not ready after {within_s:g} s:\n"
                    + "\n".join(whys)
                )
        finally:
            await _cancelled(tasks)


async def _cancelled(tasks: Collection[asyncio.Future[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _refuse(outcomes: list[BaseException | None]) -> None:
    for outcome in outcomes:
        if outcome is not None and not isinstance(outcome, ServerError):
            raise outcome
    refusals = [f"  {outcome}" for outcome in outcomes if outcome is not None]
    raise ServerError(
        f"{len(refusals)} of {len(outcomes)} instances are not what the pool says:\n" + "\n".join(refusals)
    )


async def _ask(each: Awaited, pages: Addresses, session: aiohttp.ClientSession) -> None:
    try:
        async with session.get(
            pages.models, headers=pages.headers(pages.models), allow_redirects=False
        ) as answer:
            content = await answer.content.read(_MOST_BYTES)
    except (aiohttp.ClientError, OSError, asyncio.TimeoutError) as error:
        each.why = f"no answer ({type(error).__name__})"
        return
    if answer.status in (401, 403):
        raise ServerError(
            f"{each.name} at {each.endpoint.url} refuses us (HTTP {answer.status}); name the environment "
            "variable with its key by api_key_env in the endpoints file"
        )
    if answer.status != 200:
        each.why = f"HTTP {answer.status} at {pages.models}"
        return
    names = _models(content)
    if each.model not in names:
        shown = ", ".join(names[:_SHOWN]) or "nothing that is a list of models"
        raise ServerError(
            f"{each.name} at {each.endpoint.url} serves {shown}, not {each.model!r}; correct the address, or "
            "give served_name in the endpoints file"
        )
    each.why = ""


def _models(content: bytes) -> list[str]:
    try:
        listed = orjson.loads(content)["data"]
        return [str(entry["id"])[:200] for entry in listed]
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return []
