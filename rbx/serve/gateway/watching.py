"""What the gateway asks of whoever watches the pool."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from rbx.config.gateway import Watch
from rbx.serve.watch.sight import PoolSight


class Watching(Protocol):
    """Told of every dispatch, token and end, it says how the pool stands; see ``rbx.serve.watch``."""

    async def start(self) -> None:
        """Begin to watch."""

    async def stop(self) -> None:
        """End it."""

    def configure(self, config: Watch) -> None:
        """Watch by ``config`` from now on."""

    def dispatched(
        self,
        i: int,
        request_id: str,
        now_s: float,
        prompt_tokens: int,
        cap_tokens: int,
        predicted_tokens: int,
        *,
        streams: bool,
    ) -> None:
        """A request is on its way to instance ``i``; unless it ``streams`` its end alone will be told."""

    def tokens(self, i: int, request_id: str, now_s: float, output_tokens_so_far: int) -> None:
        """It has given so many tokens."""

    def ended(self, i: int, request_id: str, now_s: float) -> None:
        """It has ended, in whatever way."""

    def counted_s(self, now_s: float) -> Sequence[float]:
        """When each instance's own counters last rose, (I,); −inf where they can't tell."""

    def view(self, now_s: float, *, snapshots: bool = True) -> PoolSight:
        """The pool now; ``snapshots`` cost most of it, and are left out where nobody needs them."""
