"""A schedule sent to a server of the same event loop."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from rbx.config.live import LoadClient
from rbx.label.redaction import Redaction
from rbx.load.client.origin import Origin
from rbx.load.client.request import LoadRequest, LoadTarget
from rbx.load.client.result import LoadResult
from rbx.load.client.sending import Sending
from rbx.load.client.wire import wire

CHAT = "/chat/completions"


class Sent(NamedTuple):
    """Results by request, in the order of their ends, and who sent them."""

    results: dict[int, LoadResult]
    sending: Sending
    start_s: float


def asking(number: int, at_s: float = 0.0, *, stream: bool = True, **more: Any) -> LoadRequest:
    """A request whose body holds its number as ``seed``."""
    body = {"stream": stream, "seed": number, **more}
    return LoadRequest(number, at_s, CHAT, json.dumps(body).encode())


async def sent(
    url: str,
    requests: Sequence[LoadRequest],
    client: LoadClient | None = None,
    *,
    drain_s: float = 30.0,
    key: str | None = None,
    stop_at_s: float | None = None,
    each: Callable[[LoadResult], None] = lambda _: None,
) -> Sent:
    """Send and wait for all; ``each`` gets every result as it comes."""
    results: dict[int, LoadResult] = {}

    def sink(result: LoadResult) -> None:
        assert result.request not in results
        results[result.request] = result
        each(result)

    origin = Origin(LoadTarget(url, key))
    await origin.resolve()
    wires = [wire(one, origin, key) for one in requests]
    limits = client or LoadClient()
    sending = Sending(wires, origin, limits, drain_s, sink, redaction=Redaction([key or ""]))
    start_s = time.monotonic() + 0.01
    if stop_at_s is not None:
        asyncio.get_running_loop().call_later(0.01 + stop_at_s, sending.stop)
    await sending.run(start_s)
    return Sent(results, sending, start_s)
