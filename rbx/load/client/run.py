"""A schedule, sent by client processes that share one start."""

from __future__ import annotations

import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rbx.config.live import LoadClient
from rbx.errors import ConfigError, StoreError
from rbx.load.client.health import ClientHealth, client_health
from rbx.load.client.origin import Origin
from rbx.load.client.processes import Processes, processes
from rbx.load.client.request import LoadRequest, LoadTarget
from rbx.load.client.tally import Tally, tally

LOOK_S = 0.05
PROGRESS_S = 0.25
HEAD_START_S = 0.1  # from the start's being told to the start


def run_load(
    requests: Sequence[LoadRequest],
    target: LoadTarget,
    client: LoadClient,
    journal: Path,
    drain_s: float,
    *,
    keep_text: bool = True,
    progress: Callable[[Tally], None] | None = None,
    stop: threading.Event | None = None,
) -> ClientHealth:
    """Send ``requests`` and return when each has ended; blocks, so that an event loop calls it in a thread.

    Each ends as one line of ``journal`` (replaced if it exists) in the order of their ends; see
    ``read_journal``. The sending is done by ``client.processes`` child processes: nothing that the
    caller does delays a request. Without ``keep_text`` no answer's text reaches the journal, its hashes do.
    ``progress`` is called a few times a second, here. Once ``stop`` is set
    nothing more is sent and what is in flight is cancelled. What is in flight ``drain_s`` after the last
    scheduled time is given up.

    Raises ``LoadError`` where a client process ends early, ``ConfigError`` for a request that can't be
    sent, ``StoreError`` where the journal can't be written.
    """
    ordered = _ordered(requests)
    if not (math.isfinite(drain_s) and drain_s >= 0.0):
        raise ConfigError(f"drain_s is {drain_s}; it must be a number of seconds from 0 on")
    Origin(target)
    _emptied(journal)
    count = min(client.processes, len(ordered))
    told: dict[int, dict[str, Any]] = {}
    done: dict[int, dict[str, Any]] = {}
    if count:
        each = client.model_copy(update={"max_connections": max(1, client.max_connections // count)})
        orders = {
            "url": target.url,
            "key": target.key,
            "client": each.model_dump(mode="json"),
            "drain_s": drain_s,
            "journal": str(journal.absolute()),
            "keep_text": keep_text,
        }
        with processes(count) as running:
            running.give([(orders, ordered[k::count]) for k in range(count)])
            start_s = time.monotonic() + HEAD_START_S
            started_unix_s = time.time() + HEAD_START_S
            running.tell(f"{start_s!r}\n".encode())
            _watch(running, told, done, stop, lambda: _tell(progress, len(ordered), start_s, told))
            _tell(progress, len(ordered), start_s, told)
    else:
        started_unix_s = time.time()
    return client_health([each.scheduled_s for each in ordered], list(done.values()), started_unix_s)


def _watch(
    running: Processes,
    told: dict[int, dict[str, Any]],
    done: dict[int, dict[str, Any]],
    stop: threading.Event | None,
    progress: Callable[[], None],
) -> None:
    """Keep the last counts of each process in ``told``, until the last words of all are in ``done``."""
    next_s = time.monotonic() + PROGRESS_S
    stopped = False
    while len(done) < running.count:
        for process, word, what in running.heard(LOOK_S):
            if word == "counts":
                told[process] = what
            elif word == "done":
                done[process] = what
        if stop is not None and stop.is_set() and not stopped:
            stopped = True
            running.tell(b"stop\n")
        if time.monotonic() >= next_s:
            next_s = time.monotonic() + PROGRESS_S
            progress()


def _tell(
    progress: Callable[[Tally], None] | None, requests: int, start_s: float, told: dict[int, dict[str, Any]]
) -> None:
    if progress is not None and told:
        progress(tally(requests, max(0.0, time.monotonic() - start_s), told.values()))


def _ordered(requests: Sequence[LoadRequest]) -> list[LoadRequest]:
    """By time; raises ``ConfigError`` for a number that is not unique or a time that is none."""
    for one in requests:
        if not (math.isfinite(one.scheduled_s) and one.scheduled_s >= 0.0):
            raise ConfigError(f"request {one.request} is scheduled at {one.scheduled_s}; times start at 0")
    number, times = Counter(one.request for one in requests).most_common(1)[0] if requests else (0, 1)
    if times > 1:
        raise ConfigError(f"{times} requests have the number {number}; each needs its own")
    return sorted(requests, key=lambda one: (one.scheduled_s, one.request))


def _emptied(journal: Path) -> None:
    try:
        journal.parent.mkdir(parents=True, exist_ok=True)
        journal.write_bytes(b"")
    except OSError as error:
        raise StoreError(f"{journal}: can't be written: {error.strerror or error}") from None
