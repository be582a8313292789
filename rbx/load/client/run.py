"""A schedule, sent by client processes that share one start."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from rbx.config.live import LoadClient
from rbx.load.client.health import ClientHealth
from rbx.load.client.request import LoadRequest, LoadTarget
from rbx.load.client.tally import Tally


def run_load(
    requests: Sequence[LoadRequest],
    target: LoadTarget,
    client: LoadClient,
    journal: Path,
    drain_s: float,
    *,
    progress: Callable[[Tally], None] | None = None,
    stop: threading.Event | None = None,
) -> ClientHealth:
    """Send ``requests`` and return when each has ended; blocks, so that an event loop calls it in a thread.

    Each ends as one line of ``journal`` (replaced if it exists) in the order of their ends; see
    ``read_journal``. The sending is done by ``client.processes`` child processes: nothing that the
    caller does delays a request. ``progress`` is called a few times a second, here. Once ``stop`` is set
    nothing more is sent and what is in flight is cancelled. What is in flight ``drain_s`` after the last
    scheduled time is given up.

    Raises ``LoadError`` where a client process ends early, ``ConfigError`` for a request that can't be
    sent, ``StoreError`` where the journal can't be written.
    """
    raise NotImplementedError
