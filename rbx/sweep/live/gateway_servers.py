"""A gateway of ours as target, with the servers behind it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from rbx.config.endpoints import InstanceEndpoint
from rbx.config.experiment import Experiment
from rbx.config.launch import LauncherSpec
from rbx.config.policy import ExternalPolicy, SinglePolicy
from rbx.config.pool import Pool
from rbx.errors import ConfigError
from rbx.serve.watch.fetch import Unanswered
from rbx.sweep.live.asking import Asker
from rbx.sweep.live.config_swap import ConfigSwap, InForce, cell_config
from rbx.sweep.live.fault import TargetFault
from rbx.sweep.live.found_config import FoundConfig
from rbx.sweep.live.identity import Identity, listed_models
from rbx.sweep.live.readiness import NOBODY_S, Tell, await_gateway, gone, unheard
from rbx.sweep.live.server_pages import GATEWAY, gauge
from rbx.sweep.live.servers import Servers
from rbx.sweep.live.target import Installed

_IN_FLIGHT = "rbx_requests_in_flight"
_PAUSE_S = 0.25


class GatewayServers:
    """See ``LiveTarget``. ``bundle`` is the digest of the experiment's heads."""

    kind = "gateway"
    traced = True
    key: str | None = None
    model = "auto"
    nobody_s = NOBODY_S
    launcher: LauncherSpec | None = None  # what has brought the servers up, where that was us

    def __init__(
        self,
        url: str,
        token: str | None,
        endpoints: Mapping[str, InstanceEndpoint],
        asker: Asker,
        experiment: Experiment,
        pool: Pool,
        bundle: str | None,
        ready_s: float,
        note: Path | None = None,
    ) -> None:
        """``url`` is without ``/v1``; ``endpoints`` are empty where the servers are not known.

        ``note`` is the file of ``FoundConfig``; raises ``StoreError`` where it is none.
        """
        self._note_path = note
        self._asker, self._experiment, self._pool = asker, experiment, pool
        self._bundle, self._ready_s = bundle, ready_s
        self._stand_at(url, token, endpoints)

    def _stand_at(self, url: str, token: str | None, endpoints: Mapping[str, InstanceEndpoint]) -> None:
        """Begin with this gateway: nothing has been seen of it, nor put in force there."""
        self._base = url
        self._swap = ConfigSwap(self._asker, url, token)
        self._note = FoundConfig(self._note_path, url)
        self._servers = Servers(self._asker, self._pool, endpoints)
        self._found: InForce | None = None  # what stood there before the first cell
        self._ours: InForce | None = None  # what we have put in force last
        self._identity: Identity | None = None

    @property
    def url(self) -> str:
        """See ``LiveTarget``."""
        return f"{self._base}/v1"

    @property
    def endpoints(self) -> Mapping[str, InstanceEndpoint]:
        """See ``LiveTarget``."""
        return self._servers.endpoints

    @property
    def simulated(self) -> bool:
        """See ``LiveTarget``."""
        return self.time_scale is not None

    @property
    def time_scale(self) -> float | None:
        """See ``LiveTarget``."""
        return None if self._identity is None else self._identity.time_scale

    async def ready(self, tell: Tell = unheard) -> None:
        """See ``LiveTarget``."""
        await await_gateway(
            self._asker, self._base, self._pool, self._ready_s, nobody_s=self.nobody_s, tell=tell
        )

    async def identity(self) -> Identity:
        """See ``LiveTarget``."""
        shown = await self._swap.shown()
        pool, bundle = _digest(shown, "pool"), _digest(shown, "bundle")
        self._check(pool, bundle)
        try:
            listed = listed_models(await self._asker.get(f"{self.url}/models"))
        except Unanswered as fault:
            raise TargetFault("not_ready", f"{self.url}/models: no answer ({fault})") from None
        lacking = [model for model in self._pool.models if model not in listed.names]
        if lacking:
            raise TargetFault("wrong_model", f"{self.url} serves {listed.shown}, not {', '.join(lacking)}")
        await self._look_behind(shown)
        servers = await self._servers.identities()
        warnings = await self._servers.other_limits(self.launcher)
        release = shown.about["rbx"]
        version = release if isinstance(release, str) else None
        self._identity = Identity(self.kind, self.url, listed.names, version, pool, bundle, servers, warnings)
        return self._identity

    async def _look_behind(self, shown: InForce) -> None:
        """Take the servers that the gateway names where no file does, if they answer from here as well.

        Its addresses are its own: from elsewhere they may lead nowhere, or to somebody else. No key is sent
        to what a gateway names.
        """
        if self._servers.endpoints:
            return
        told = _told_endpoints(shown, self._pool)
        if told:
            servers = Servers(self._asker, self._pool, told)
            with suppress(TargetFault):
                await servers.identities()
                self._servers = servers

    def _check(self, pool: str | None, bundle: str | None) -> None:
        """The gateway's prices, limits and heads must be those that its answers will be judged by."""
        if pool != self._pool.digest:
            raise TargetFault(
                "wrong_model",
                f"{self._base} serves another pool ({_short(pool)}) than the experiment's {self._pool.name} "
                f"({_short(self._pool.digest)}); start it with --pool {self._experiment.pool}",
            )
        if self._bundle is not None and bundle not in (None, self._bundle):
            raise TargetFault(
                "wrong_model",
                f"{self._base} decides by other heads ({_short(bundle)}) than the experiment's "
                f"({_short(self._bundle)}); start it with --bundle {self._experiment.bundle}",
            )

    async def install(self, policy: SinglePolicy) -> Installed:
        """See ``LiveTarget``."""
        standing = await self._swap.shown()
        if self._found is None:
            standing = self._found = await self._put_back(standing)
        if self._ours is not None and standing.label != self._ours.label:
            seen, self._ours = self._ours.label, standing  # the next cell begins with what stands now
            raise TargetFault(
                "config_changed",
                f"{self._base}: version {standing.label} is in force, not {seen} that the cell before ran "
                "under; nobody else may change the configuration during a sweep",
            )
        if isinstance(policy, ExternalPolicy):
            return Installed(standing.policy, standing.number, standing.label)
        config = cell_config(standing.config, self._experiment, policy)
        self._note.replacing(self._found, standing)
        try:
            self._ours = await self._swap.put(config, standing.label)
        except TargetFault as fault:
            if fault.kind != "not_ready":  # without an answer it may be in force
                self._note.refused()
            raise TargetFault(fault.kind, f"policy {policy.label}: {fault}") from None
        self._note.replaced(self._ours)
        return Installed(self._ours.policy, self._ours.number, self._ours.label)

    async def restore(self) -> None:
        """Put back what stood there before the first cell, unless somebody has changed it since."""
        if self._note.noted:
            with suppress(TargetFault):  # the note stays, for the next sweep
                await self._put_back(await self._swap.shown())

    async def _put_back(self, standing: InForce) -> InForce:
        """Replace what a sweep has left there, this one or one that was killed; returns what stands then."""
        config = self._note.to_put_back(standing)
        if config is not None:
            standing = await self._swap.put(config, standing.label)
        self._note.forget()
        return standing

    async def drained(self, within_s: float) -> bool | None:
        """See ``LiveTarget``."""
        loop = asyncio.get_running_loop()
        until_s = loop.time() + within_s
        while (in_flight := gauge(await self._own_page(), _IN_FLIGHT)) != 0.0:
            if loop.time() >= until_s:
                return None if in_flight is None else False
            await asyncio.sleep(_PAUSE_S)
        return await self._servers.drained(max(0.0, until_s - loop.time()))

    async def lost(self) -> str | None:
        """See ``LiveTarget``; a gateway without one server that answers is as good as none."""
        if why := await gone(self._asker, f"{self._base}/readyz"):
            return why
        silent = await self._servers.gone()
        if silent and len(silent) == len(self.endpoints):
            name, why = next(iter(silent.items()))
            return f"none of the {len(silent)} servers behind {self._base} answers, as {name}: {why}"
        return None

    async def _own_page(self) -> str:
        try:
            answer = await self._asker.get(f"{self._base}/metrics")
        except Unanswered:
            return ""
        return answer.text if answer.ok else ""

    async def reset_prefix_caches(self) -> tuple[str, ...]:
        """See ``LiveTarget``; raises ``ConfigError`` where no server is known."""
        if not self.endpoints:
            raise ConfigError(
                "live.prefix_cache: reset needs to know the servers: give live.target.endpoints, or take salt"
            )
        return await self._servers.reset()

    async def pages(self) -> dict[str, str]:
        """See ``LiveTarget``."""
        own = await self._own_page()
        return {**({GATEWAY: own} if own else {}), **await self._servers.pages()}

    def describe(self) -> dict[str, Any]:
        """See ``LiveTarget``."""
        return {"kind": self.kind, "url": self._base, "instances": len(self.endpoints)}


def _digest(shown: InForce, name: str) -> str | None:
    told = shown.about[name]
    found = told.get("digest") if isinstance(told, dict) else None
    return found if isinstance(found, str) else None


def _told_endpoints(shown: InForce, pool: Pool) -> dict[str, InstanceEndpoint]:
    """All that the gateway names for the pool's instances; nothing where one is missing or is no address."""
    about = shown.about["pool"]
    entries = about.get("instances") if isinstance(about, dict) else None
    found: dict[str, InstanceEndpoint] = {}
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, dict):
            place = {key: entry.get(key) for key in ("url", "served_name", "metrics_url")}
            try:
                found[str(entry.get("name"))] = InstanceEndpoint.model_validate(place)
            except ValidationError:
                return {}
    return found if set(found) == {instance.name for instance in pool.instances} else {}


def _short(digest: str | None) -> str:
    return "none told" if digest is None else f"{digest[:12]}…"
