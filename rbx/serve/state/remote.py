"""The exact state of a vLLM server on another host, over HTTP (``rbx.serve.plugin.endpoint``).

Two hosts share no monotonic clock. The answer says how old the snapshot was when it was sent; on the
reader's clock it was sent halfway between question and answer, give or take half the round trip.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import httpx
import numpy as np

from rbx.engine.instance_profile import InstanceProfile, StepCoefficients
from rbx.engine.instance_snapshot import InstanceSnapshot
from rbx.engine.state import Ints
from rbx.errors import EngineError, ServerError
from rbx.serve.plugin import layout
from rbx.serve.state.published import checked_header, limits_of, require_publishing, snapshot_of

PATH = "/v1/rbx/state"
TIMEOUT_S = 1.0


def state_address(url: str) -> str:
    """Where the server at ``url`` (with or without ``/v1``) tells its state."""
    return f"{url.rstrip('/').removesuffix('/v1')}{PATH}"


class RemoteState:
    """Snapshots of rank ``rank`` of the server at ``url``, priced with ``coefficients``.

    ``client`` carries the API key if the server wants one; ``clock`` is the reader's monotonic clock.
    """

    def __init__(
        self,
        url: str,
        coefficients: StepCoefficients,
        client: httpx.Client,
        rank: int = 0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Ask nothing yet."""
        self._address = state_address(url)
        self._coefficients, self._client, self._rank, self._clock = coefficients, client, rank, clock
        self.ids: Ints = np.zeros(0, dtype=np.int64)

    def read(self) -> InstanceSnapshot:
        """The newest snapshot, its stamps on the reader's clock; ``ids`` then names its requests.

        Raises ``ServerError`` if the server does not answer with one and ``EngineError`` if it can't be
        one.
        """
        asked_s = self._clock()
        try:
            found = self._client.get(self._address, params={"rank": self._rank}, timeout=TIMEOUT_S)
        except httpx.HTTPError as error:
            raise ServerError(f"{self._address}: no answer: {error or type(error).__name__}") from None
        if found.status_code != httpx.codes.OK:
            raise ServerError(
                f"{self._address}: {found.status_code}: {found.text[:300]}; the server needs "
                "VLLM_PLUGINS=rbx-state"
            )
        sent_s = (asked_s + self._clock()) / 2
        snapshot, self.ids = remote_snapshot(self._address, found.content, sent_s, self._coefficients)
        return snapshot


def remote_snapshot(
    address: str, content: bytes, sent_s: float, coefficients: StepCoefficients
) -> tuple[InstanceSnapshot, Ints]:
    """The snapshot in an answer of ``address`` and the ids of its rows (N,).

    ``sent_s`` is when it was sent, on the reader's clock. Raises ``EngineError`` if it can't be one.
    """
    size = layout.MESSAGE.itemsize
    if len(content) < size:
        raise EngineError(f"{address}: {len(content)} bytes are no published state")
    message = np.frombuffer(content, layout.MESSAGE, 1)[0]
    header = checked_header(address, memoryview(content))
    require_publishing(address, header)
    scalars, count = message["snapshot"], int(message["snapshot"]["requests"])
    if count < 0 or len(content) != size + count * layout.ROW_COLUMNS * 8:
        raise EngineError(f"{address}: {len(content)} bytes do not hold {count} requests")
    rows = np.frombuffer(content, "<i8", offset=size).reshape(count, layout.ROW_COLUMNS)
    if not math.isfinite(message["now_s"]):
        raise EngineError(f"{address}: now_s is {message['now_s']}; it must be finite")
    age_s = max(0.0, float(message["now_s"] - scalars["stamp_s"]))
    profile = InstanceProfile(limits_of(header), coefficients)
    return snapshot_of(address, profile, scalars, rows, sent_s - age_s), rows[:, layout.ID]
