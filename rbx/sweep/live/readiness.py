"""Waiting until a target can be sent the cell's requests, and seeing that it is gone."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping

from rbx.config.pool import Pool
from rbx.serve.watch.fetch import Unanswered
from rbx.sweep.live.asking import Asker, bearer
from rbx.sweep.live.fault import TargetFault
from rbx.sweep.live.identity import Listed, listed_models

PAUSE_S = 0.25
# Servers that load may take minutes, but whoever runs a sweep against a running target has it running.
NOBODY_S = 30.0
_SHOWN = 8  # instances in a message
_LOST_TRIES, _LOST_PAUSE_S = 3, 1.0

Tell = Callable[[str], None]


def unheard(why: str) -> None:
    """Nobody wants to know."""


class _Patience:
    """How long a target is waited for: ``within_s``, and ``nobody_s`` where no connection is ever taken."""

    def __init__(self, url: str, within_s: float, nobody_s: float, tell: Tell) -> None:
        """The time runs from here."""
        self._now = asyncio.get_running_loop().time
        self._url, self._within_s, self._nobody_s = url, within_s, nobody_s
        self._begun_s = self._now()
        self._tell = tell
        self._listens = False

    async def wait(self, why: str, *, refused: bool) -> None:
        """A pause; raises ``TargetFault`` where there has been enough of them."""
        self._tell(why)
        self._listens = self._listens or not refused
        waited_s = self._now() - self._begun_s
        if not self._listens and self._nobody_s <= waited_s:
            raise TargetFault("not_there", f"nothing listens at {self._url} for {self._nobody_s:g} s: {why}")
        if waited_s >= self._within_s:
            raise TargetFault("not_ready", f"{self._url} is not ready after {self._within_s:g} s: {why}")
        await asyncio.sleep(PAUSE_S)


async def await_gateway(
    asker: Asker,
    url: str,
    pool: Pool,
    within_s: float,
    *,
    nobody_s: float = math.inf,
    tell: Tell = unheard,
) -> None:
    """Wait until the gateway at ``url`` can route to every instance of the pool.

    A pool with instances missing is another pool. ``tell`` is called with what is missing at each look.
    Raises ``TargetFault`` with it (``not_ready``), or ``not_there`` where nothing has listened for
    ``nobody_s``.
    """
    patience = _Patience(url, within_s, nobody_s, tell)
    while True:
        try:
            why, refused = await _why_not(asker, f"{url}/readyz", pool), False
        except Unanswered as fault:
            refused = fault.reason == "refused"
            why = f"{no_answer(fault, url)}; start it with rbx serve or rbx launch"
        if not why:
            return
        await patience.wait(why, refused=refused)


async def _why_not(asker: Asker, address: str, pool: Pool) -> str:
    """Empty where everything can be routed to; raises ``Unanswered``."""
    answer = await asker.get(address)
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


async def await_endpoint(
    asker: Asker,
    url: str,
    key: str | None,
    model: str,
    within_s: float,
    *,
    nobody_s: float = math.inf,
    tell: Tell = unheard,
) -> Listed:
    """Wait until ``/models`` below ``url`` answers, and return what it lists.

    Raises ``TargetFault`` where it never does, refuses the key or serves other models; ``nobody_s`` and
    ``tell`` as for ``await_gateway``.
    """
    address = f"{url}/models"
    patience = _Patience(address, within_s, nobody_s, tell)
    while True:
        refused = False
        try:
            answer = await asker.get(address, bearer(key))
            why = f"HTTP {answer.status}"
        except Unanswered as fault:
            answer, why, refused = None, no_answer(fault, url), fault.reason == "refused"
        if answer is not None and answer.status in (401, 403):
            how = "give live.target.api_key_env, the environment variable with its key"
            raise TargetFault("not_ready", f"{address} refuses us (HTTP {answer.status}); {how}")
        if answer is not None and answer.ok:
            listed = listed_models(answer)
            if model in listed.names:
                return listed
            raise TargetFault("wrong_model", f"{url} serves {listed.shown}, not {model!r}")
        await patience.wait(why, refused=refused)


def no_answer(fault: Unanswered, url: str) -> str:
    """In words."""
    return f"connection refused at {url}" if fault.reason == "refused" else f"no answer at {url} ({fault})"


async def gone(
    asker: Asker, address: str, headers: Mapping[str, str] | None = None, *, errors_too: bool = False
) -> str | None:
    """Why nothing answers at ``address``, asked a few times; None where something does.

    With ``errors_too`` a server error is no answer either: a proxy tells so of what stood behind it.
    """
    why = ""
    for again in range(_LOST_TRIES):
        if again:
            await asyncio.sleep(_LOST_PAUSE_S)
        try:
            answer = await asker.get(address, headers)
        except Unanswered as fault:
            why = no_answer(fault, address)
            continue
        if not (errors_too and answer.status >= 500):
            return None
        why = f"HTTP {answer.status} at {address}"
    return why
