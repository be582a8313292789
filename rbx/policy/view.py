"""What a decision looks at, and what a router learns afterwards."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rbx.engine.instance_snapshot import InstanceSnapshot
from rbx.engine.telemetry import PoolTelemetry
from rbx.heads.bea.unseen import UnseenRequests

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class PoolView:
    """The pool as one decision sees it, for a batch of B requests on I instances.

    ``enters_s`` is when what is decided now reaches its instance, ``returns_s`` how long a token
    travels back; ``arrived_s`` (B,) is when each request came, in the order in which they are to be
    placed. ``snapshots`` and ``unseen`` (what was sent and no snapshot shows) hold one entry for
    each instance, or nothing for policies that do not ask for them.
    """

    now_s: float
    enters_s: float
    returns_s: float
    arrived_s: Floats
    telemetry: PoolTelemetry
    snapshots: tuple[InstanceSnapshot, ...] = ()
    unseen: tuple[UnseenRequests, ...] = ()


@dataclass(frozen=True)
class Served:
    """Requests whose answers have ended since the last report, arrays (n,) in order of their end.

    Times are the router's own: when a request arrived, when its first and its last token came back.
    ``request`` is its row in the request table.
    """

    request: Ints
    instance: Ints
    input_tokens: Ints
    output_tokens: Ints
    arrived_s: Floats
    first_token_s: Floats
    done_s: Floats

    @property
    def ttft_s(self) -> Floats:
        """From arrival to first token."""
        return self.first_token_s - self.arrived_s

    @property
    def tpot_s(self) -> Floats:
        """(done − first token) ÷ (output tokens − 1); NaN below two tokens."""
        gaps = np.where(self.output_tokens >= 2, self.output_tokens - 1, np.nan)
        return (self.done_s - self.first_token_s) / gaps
