"""Follows a vLLM scheduler: keeps the batches in flight and publishes after each of its decisions."""

from __future__ import annotations

import logging
import math
import time
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

from rbx.serve.plugin.batch import Batch, batch_of
from rbx.serve.plugin.layout import MAX_IN_FLIGHT, SNAPSHOT, STEP
from rbx.serve.plugin.request_rows import NOBODY, RequestRows
from rbx.serve.plugin.state_file import StateFile

_log = logging.getLogger("vllm.rbx")


class Publisher:
    """Publishes ``scheduler`` into ``file``; an error ends the publishing, never the engine.

    ``clock`` is the monotonic clock of this host. ``errors`` counts what ended it (0 or 1).
    """

    def __init__(self, scheduler: Any, file: StateFile, clock: Callable[[], float] = time.monotonic) -> None:
        """Publish the empty state."""
        self.clock = clock
        self.errors = 0
        self.file = file
        self._scheduler = scheduler
        self._asynchronous = bool(scheduler.scheduler_config.async_scheduling)
        self._blocks = scheduler.kv_cache_manager.coordinator.single_type_managers[0].req_to_blocks
        self._pool = scheduler.kv_cache_manager.block_pool
        self._rows = RequestRows(file.row_capacity, scheduler.max_model_len)
        self._prefilling: set[str] = set()
        self._flight: deque[Batch] = deque()
        self._busy = False  # whether work was left when the last step ended
        self._last_end_s = 0.0
        self._snapshot = np.zeros(1, dtype=SNAPSHOT)
        self._step = np.zeros(1, dtype=STEP)
        self._guarded(self._publish)

    @property
    def version(self) -> int:
        """How many snapshots have been published."""
        return int(self._snapshot["version"][0])

    def formed(self, output: Any, asked_s: float) -> None:
        """After ``schedule``, which was called at ``asked_s``."""
        if not self.errors:
            self._guarded(self._formed, output, asked_s)

    def ended(self, output: Any) -> None:
        """After ``update_from_output`` of the batch ``output``."""
        if not self.errors:
            self._guarded(self._ended, output)

    def _guarded(self, note: Callable[..., None], *arguments: Any) -> None:
        try:
            note(*arguments)
        except Exception as error:
            # Inside somebody's server: no fault of an observer may end it, whatever kind it is of.
            self.errors += 1
            self.file.stop(f"{type(error).__name__}: {error}")
            _log.exception("rbx: publishing the scheduler's state has failed and is off from now on")

    def _formed(self, output: Any, asked_s: float) -> None:
        flight = self._flight
        if flight:
            self._start(flight[0], asked_s)
        if output.total_num_scheduled_tokens > 0:
            flight.append(batch_of(self._scheduler, output, self._prefilling))
            if len(flight) == 1:
                self._start(flight[0], asked_s)
                if self._asynchronous:
                    return  # the batch ahead is formed at once; a newcomer meets both
        self._publish()

    def _ended(self, output: Any) -> None:
        if output.total_num_scheduled_tokens == 0:
            return
        batch = self._flight.popleft()
        end_s = self.clock()
        self._start(batch, end_s)
        self._record(batch, end_s)
        scheduler = self._scheduler
        self._last_end_s = end_s
        self._busy = bool(self._flight or scheduler.running or scheduler.waiting)
        self._publish()

    def _start(self, batch: Batch, asked_s: float) -> None:
        """While there is work a step lasts from the end of the one before: the queue waits all the time."""
        if math.isnan(batch.start_s):
            batch.start_s = self._last_end_s if self._busy else asked_s

    def _record(self, batch: Batch, end_s: float) -> None:
        self._step[0] = (0, batch.start_s, end_s, *batch.make_up, batch.prefills)
        self.file.append(self._step)

    def _publish(self) -> None:
        scheduler, flight = self._scheduler, self._flight
        started = bool(flight) and not math.isnan(flight[0].start_s)
        running = flight[0].yields if started else NOBODY
        ahead = flight[-1].yields if len(flight) > started else NOBODY
        rows, left_out = self._rows.fill(scheduler.running, scheduler.waiting, self._blocks, running, ahead)
        starts, make_up = [math.nan] * MAX_IN_FLIGHT, [(0,) * 5] * MAX_IN_FLIGHT
        for k, batch in enumerate(flight):
            starts[k], make_up[k] = batch.start_s, batch.make_up
        self._snapshot[0] = (
            self.version + 1,
            self.clock(),
            self._pool.get_num_free_blocks(),
            len(scheduler.running),
            len(rows),
            left_out,
            self._rows.unmodelled,
            len(flight),
            starts,
            make_up,
        )
        self.file.publish(self._snapshot, rows)
