"""A signal that several ask about the same answers, and that scores each only once."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Sequence

from rbx.label.answer import Answer, Signal, Stub, Verdict, stub_of

KEPT_VERDICTS = 16_384  # some 10 MB with a judge's reasons


class Once:
    """``inner`` for those who score the same answers at the same time: a metric, and metrics by source.

    An answer that is being scored is waited for, and the latest verdicts are kept, so that a judge is
    not asked, nor code run, a second time. A failed judgement is shared but not kept.
    """

    def __init__(self, inner: Signal) -> None:
        """``inner``'s own bound on calls at once holds for all who ask together."""
        self.name = inner.name
        self.digest = inner.digest
        self.batch = inner.batch
        self.concurrency = inner.concurrency
        self._inner = inner
        self._free = asyncio.Semaphore(inner.concurrency)
        self._scoring: dict[Stub, asyncio.Future[Verdict]] = {}
        self._known: OrderedDict[Stub, Verdict] = OrderedDict()

    async def score(self, answers: Sequence[Answer]) -> list[Verdict]:
        """One verdict an answer, in their order."""
        keyed = {stub_of(answer): answer for answer in answers}
        found = {key: self._known[key] for key in keyed if key in self._known}
        while lacking := [key for key in keyed if key not in found]:
            elsewhere = {key: self._scoring[key] for key in lacking if key in self._scoring}
            if new := [key for key in lacking if key not in elsewhere]:
                found.update(await self._score({key: keyed[key] for key in new}))
            if elsewhere:
                await asyncio.wait(elsewhere.values())
            # Whoever asked for the others may have failed or been cancelled: then ask again, here.
            found.update({key: each.result() for key, each in elsewhere.items() if not each.cancelled()})
        return [found[stub_of(answer)] for answer in answers]

    async def alive(self) -> bool:
        """Whether the inner signal's judge answers now."""
        return await self._inner.alive()

    async def close(self) -> None:
        """Close the inner signal."""
        await self._inner.close()

    async def _score(self, new: dict[Stub, Answer]) -> dict[Stub, Verdict]:
        waiting = {key: asyncio.get_running_loop().create_future() for key in new}
        self._scoring.update(waiting)
        try:
            async with self._free:
                verdicts = dict(zip(new, await self._inner.score(list(new.values())), strict=True))
            for key, verdict in verdicts.items():
                waiting[key].set_result(verdict)
        finally:
            for key, each in waiting.items():
                each.cancel()  # without effect where the result is there
                del self._scoring[key]
        self._known.update({key: each for key, each in verdicts.items() if each.status != "judge_failed"})
        while len(self._known) > KEPT_VERDICTS:
            self._known.popitem(last=False)
        return verdicts
