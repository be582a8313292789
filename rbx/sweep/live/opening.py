"""From the experiment's ``live`` to servers that can be used, held for one sweep alone."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from rbx.config.experiment import Experiment
from rbx.config.live import Live
from rbx.config.pool import Pool
from rbx.heads.bundle import Bundle
from rbx.sweep.live.target import LiveTarget


@asynccontextmanager
async def opened(
    live: Live, experiment: Experiment, pool: Pool, bundle: Bundle | None, logs: Path
) -> AsyncIterator[LiveTarget]:
    """Hold the target's servers for this sweep; what was changed or launched is undone at the end.

    ``logs`` is the folder for the output of a launch's processes. Raises ``StoreError`` where another sweep
    holds them, ``ConfigError`` for a target that does not fit the experiment or a key that is not set.
    """
    raise NotImplementedError
    yield
