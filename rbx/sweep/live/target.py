"""The servers of a live sweep, as one cell after the other sees them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from rbx.config.endpoints import InstanceEndpoint
from rbx.config.policy import SinglePolicy
from rbx.sweep.live.identity import Identity
from rbx.sweep.live.readiness import Tell, unheard


@dataclass(frozen=True)
class Installed:
    """The policy in force for a cell.

    ``number`` and ``label`` are the gateway's version of its configuration, as its answers show it
    (``x-rbx-config-version`` is the label); None where nobody tells.
    """

    policy: str
    number: int | None = None
    label: str | None = None


class LiveTarget(Protocol):
    """Everything may raise ``TargetFault``: this cell can't be run, the next one may.

    The order in a cell: ``ready``, ``identity``, ``install``, ``drained``, ``reset_prefix_caches`` or a salt,
    ``pages``, the load, ``lost``, ``drained``, ``pages``. Where something stands is only known after
    ``ready``, which brings up a launch that has not begun or has ended; who answers after ``identity``.
    """

    @property
    def url(self) -> str:
        """The API's base, with ``/v1``, that requests are sent to."""
        ...

    @property
    def key(self) -> str | None:
        """The bearer token for it."""
        ...

    @property
    def model(self) -> str:
        """What stands as ``model`` in requests; ``auto`` leaves the choice to the gateway's policy."""
        ...

    @property
    def traced(self) -> bool:
        """Whether a gateway of ours answers: it understands ``x-rbx-trace: 1`` and budgets."""
        ...

    @property
    def endpoints(self) -> Mapping[str, InstanceEndpoint]:
        """The servers by instance name; empty where they are not known."""
        ...

    @property
    def simulated(self) -> bool:
        """Whether a mock server was seen among those that were looked at."""
        ...

    @property
    def time_scale(self) -> float | None:
        """Simulated seconds that pass in a real one; None without mock servers."""
        ...

    async def ready(self, tell: Tell = unheard) -> None:
        """Wait, within bounds, until every instance can be sent requests; ``tell`` hears why not yet."""
        ...

    async def identity(self) -> Identity:
        """Who answers; raises ``TargetFault`` (``wrong_model``) where it is not the experiment's pool."""
        ...

    async def install(self, policy: SinglePolicy) -> Installed:
        """Put a policy in force, with nothing learned, and return under which version it decides.

        An ``external`` one leaves what stands there.
        """
        ...

    async def drained(self, within_s: float) -> bool | None:
        """Wait until nothing runs or waits anywhere; False if it still does, None if that is not told."""
        ...

    async def lost(self) -> str | None:
        """Why the target is gone; None while it answers, whatever a server behind it does."""
        ...

    async def reset_prefix_caches(self) -> tuple[str, ...]:
        """Have every known server drop its prefix cache; returns whose was dropped."""
        ...

    async def pages(self) -> dict[str, str]:
        """``/metrics`` by instance, and of the gateway (``gateway``); of those that answer."""
        ...

    def describe(self) -> dict[str, Any]:
        """For the manifest: kind, address and file, no keys."""
        ...
