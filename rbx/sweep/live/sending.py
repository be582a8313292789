"""The load of one live cell: sent by client processes, journalled as it ends."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from rbx.config.live import LoadClient
from rbx.errors import StoreError
from rbx.label.tokenizer import TokenCounter
from rbx.load.client.health import ClientHealth
from rbx.load.client.journal import read_journal
from rbx.load.client.recount import recounted
from rbx.load.client.request import LoadRequest, LoadTarget
from rbx.load.client.result import LoadResult, not_sent
from rbx.load.client.run import run_load
from rbx.load.client.tally import Tally

FOLDER = "journal"


class Sender:
    """Sends schedules to one target, one at a time; ``journal`` is the file of the one under way."""

    def __init__(self, client: LoadClient, target: LoadTarget, journal: Path, *, keep_text: bool) -> None:
        """Nothing is sent yet; without ``keep_text`` no answer's text reaches the disk.

        Raises ``DatasetError`` for a tokenizer that can't be read.
        """
        self._client, self._target, self._journal = client, target, journal
        self._keep_text = keep_text
        self._counter = None
        if client.tokenizer is not None and keep_text:
            self._counter = TokenCounter(client.tokenizer)

    async def send(
        self, requests: Sequence[LoadRequest], drain_s: float, progress: Callable[[Tally], None] | None = None
    ) -> tuple[ClientHealth, list[LoadResult]]:
        """Send a schedule and wait for its end; cancelled, it lets nothing go on.

        Raises ``LoadError`` and ``StoreError`` as ``run_load`` does.
        """
        self._make_folder()
        stop = threading.Event()
        load = partial(
            run_load,
            requests,
            self._target,
            self._client,
            self._journal,
            drain_s,
            keep_text=self._keep_text,
            progress=progress,
            stop=stop,
        )
        # No task: an event loop that ends cancels those, and would not wait for the thread.
        sending = asyncio.get_running_loop().run_in_executor(None, load)
        try:
            health = await asyncio.shield(sending)
        except BaseException:
            stop.set()
            await asyncio.gather(sending, return_exceptions=True)
            raise
        return health, await asyncio.to_thread(self._results, len(requests))

    def _results(self, expected: int) -> list[LoadResult]:
        found = list(read_journal(self._journal))
        if len({result.request for result in found}) != expected or len(found) != expected:
            raise StoreError(
                f"{self._journal}: holds {len(found)} results of {expected} requests; was it written to? The "
                "cell will start over when the same command is run again"
            )
        counter = self._counter
        return found if counter is None else [recounted(result, counter) for result in found]

    def _make_folder(self) -> None:
        try:
            self._journal.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"{self._journal.parent}: can't be written: {error.strerror}") from None


def never_sent(requests: Sequence[LoadRequest]) -> list[LoadResult]:
    """The results of a cell that could not be run."""
    return [not_sent(each.request, each.scheduled_s) for each in requests]


def by_status(results: Sequence[LoadResult]) -> dict[str, int]:
    """How many ended how."""
    return dict(sorted(Counter(result.status for result in results).items()))
