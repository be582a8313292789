"""Who answers: models, versions and limits of every server of a cell, checked against the experiment."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from rbx.config.endpoints import InstanceEndpoint
from rbx.config.pool import Pool
from rbx.serve.watch.addresses import Addresses
from rbx.serve.watch.fetch import Unanswered
from rbx.sweep.live.asking import Answer, Asker
from rbx.sweep.live.fault import TargetFault

_SHOWN = 5  # models of a server in a message
_LONGEST = 200  # characters of a name that a server gives


@dataclass(frozen=True)
class ServerIdentity:
    """One server as it describes itself; None for what it does not tell.

    ``time_scale`` is a mock server's: simulated seconds that pass in a real one.
    """

    url: str
    models: tuple[str, ...]
    max_model_len: int | None = None
    version: str | None = None
    time_scale: float | None = None

    @property
    def simulated(self) -> bool:
        """Whether it is a mock server of ours."""
        return self.time_scale is not None


@dataclass(frozen=True)
class Identity:
    """The target and the servers behind it that are known, by instance name.

    ``pool`` and ``bundle`` are the digests that a gateway of ours works with; ``warnings`` say which servers
    have other limits than the pool's, so that no simulation of them holds.
    """

    kind: str
    url: str
    models: tuple[str, ...]
    version: str | None = None
    pool: str | None = None
    bundle: str | None = None
    servers: Mapping[str, ServerIdentity] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """For the cell's summary."""
        return asdict(self)

    @property
    def time_scale(self) -> float | None:
        """Of the mock servers among them; None without one."""
        scales = [each.time_scale for each in self.servers.values() if each.time_scale is not None]
        return max(scales, default=None)


@dataclass(frozen=True)
class Listed:
    """A list of models (``/v1/models``): names, and the context length that is told of each."""

    max_model_len: Mapping[str, int | None]

    @property
    def names(self) -> tuple[str, ...]:
        """As listed."""
        return tuple(self.max_model_len)

    @property
    def shown(self) -> str:
        """Some of the names, for a message."""
        return ", ".join(self.names[:_SHOWN]) or "nothing that is a list of models"


def listed_models(answer: Answer) -> Listed:
    """What a server lists; nothing where its answer is no such list."""
    data = answer.json if answer.ok else None
    entries = data.get("data") if isinstance(data, dict) else None
    found: dict[str, int | None] = {}
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, dict) and isinstance(entry.get("id"), str):
            length = entry.get("max_model_len")
            whole = isinstance(length, int) and not isinstance(length, bool) and length > 0
            found[entry["id"][:_LONGEST]] = length if whole else None
    return Listed(found)


async def identities(
    asker: Asker, pool: Pool, endpoints: Mapping[str, InstanceEndpoint]
) -> dict[str, ServerIdentity]:
    """Ask every server of the pool who it is.

    Raises ``TargetFault`` with all that serve other models (``wrong_model``), or that give no answer
    (``not_ready``); ``ConfigError`` where the environment lacks an endpoint's key.
    """
    served = [(instance, endpoints[instance.name]) for instance in pool.instances]
    found = await asyncio.gather(
        *(_identify(asker, each.name, endpoint, each.tier.model) for each, endpoint in served),
        return_exceptions=True,
    )
    faults = []
    for outcome in found:
        if isinstance(outcome, TargetFault):
            faults.append(outcome)
        elif isinstance(outcome, BaseException):
            raise outcome
    if faults:
        wrong = [fault for fault in faults if fault.kind == "wrong_model"] or faults
        lines = "\n".join(f"  {fault}" for fault in wrong)
        count = f"{len(wrong)} of {len(served)} servers"
        raise TargetFault(
            wrong[0].kind,
            f"{count} are not what pool {pool.name} says:\n{lines}",
        )
    return {
        each.name: identity
        for (each, _), identity in zip(served, found, strict=True)
        if isinstance(identity, ServerIdentity)
    }


async def _identify(asker: Asker, name: str, endpoint: InstanceEndpoint, model: str) -> ServerIdentity:
    pages = Addresses.of(endpoint)
    expected = endpoint.served_name or model
    try:
        answer = await asker.get(pages.models, pages.headers(pages.models))
    except Unanswered as fault:
        raise TargetFault("not_ready", f"{name} at {endpoint.url}: no answer ({fault})") from None
    if answer.status in (401, 403):
        raise TargetFault(
            "not_ready",
            f"{name} at {endpoint.url} refuses us (HTTP {answer.status}); name the environment variable with "
            "its key by api_key_env in the endpoints file",
        )
    if not answer.ok:
        raise TargetFault("not_ready", f"{name} at {endpoint.url}: HTTP {answer.status} at {pages.models}")
    listed = listed_models(answer)
    if expected not in listed.names:
        raise TargetFault("wrong_model", f"{name} at {endpoint.url} serves {listed.shown}, not {expected!r}")
    version, time_scale = await told_version(asker, pages)
    return ServerIdentity(endpoint.url, listed.names, listed.max_model_len[expected], version, time_scale)


async def told_version(asker: Asker, pages: Addresses) -> tuple[str | None, float | None]:
    """vLLM's own version and, of a mock server, its time scale; servers of other kinds tell neither."""
    address = pages.models.removesuffix("/v1/models") + "/version"
    try:
        answer = await asker.get(address, pages.headers(address))
    except Unanswered:
        return None, None
    data = answer.json if answer.ok else None
    if not isinstance(data, dict):
        return None, None
    version, mock = data.get("version"), data.get("rbx_mock")
    scale = mock.get("time_scale") if isinstance(mock, dict) else None
    known = isinstance(scale, (int, float)) and math.isfinite(scale) and scale > 0
    return (
        version[:_LONGEST] if isinstance(version, str) else None,
        float(scale) if known and scale is not None else None,
    )
