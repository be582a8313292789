"""What the heads say of prompts, asked in a thread beside the event loop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from rbx.heads.bundle import Bundle
from rbx.heads.knn import PRODUCT_FROM_QUERIES
from rbx.heads.routers.head import RouterHead
from rbx.serve.gateway.scoring.scorer import Foreseen, foresee

Floats = NDArray[np.float64]

_log = logging.getLogger(__name__)


class Foresight:
    """The heads of a bundle, for M models.

    ``mean_quality`` and ``mean_length_tokens`` (M,) stand in for prompts that are not read. Without a bundle
    nothing is known of quality, and of length half of ``max_output_tokens`` is expected, as
    ``LengthRule`` does.
    """

    def __init__(self, bundle: Bundle | None, n_models: int, max_output_tokens: int) -> None:
        """One thread: an encoder is as fast with one batch at a time."""
        self._bundle = bundle
        self.mean_quality: Floats = np.zeros(n_models)
        self.mean_length_tokens: Floats = np.full(n_models, max(1.0, max_output_tokens / 2))
        if bundle is not None:
            statistics = bundle.meta.statistics
            self.mean_quality = np.array([each.mean_score for each in statistics])
            self.mean_length_tokens = np.array([each.mean_length_tokens for each in statistics])
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="rbx-heads")
        self._late: Future[Foreseen] | None = None

    @property
    def at_hand(self) -> bool:
        """Whether there are heads to ask."""
        return self._bundle is not None

    async def warm(self) -> None:
        """Read the encoder in and ask for few prompts and for many; raises what it can't be read in for."""
        if self._bundle is not None:
            for n in (1, 2 * PRODUCT_FROM_QUERIES):
                await asyncio.wrap_future(self._thread.submit(foresee, self._bundle, ["warm"] * n))

    async def predict(
        self, texts: Sequence[str], within_s: float, router: RouterHead | None = None
    ) -> Foreseen | None:
        """Predictions for some texts; None, with a line in the log, if they fail or take too long.

        Calls take turns. While an earlier one that took too long is still under way, nothing is asked.
        """
        assert self._bundle is not None
        if self._late is not None and not self._late.done():
            _log.warning("the encoder is still busy with an earlier batch; %d not predicted", len(texts))
            return None
        asked = self._thread.submit(foresee, self._bundle, list(texts), router)
        waiting = asyncio.wrap_future(asked)
        await asyncio.wait({waiting}, timeout=within_s)
        if not waiting.done():
            _log.warning("the encoder took more than %g s for %d prompts", within_s, len(texts))
            waiting.add_done_callback(_forget)
            if not asked.cancel():  # its turn has come
                self._late = asked
            return None
        failure = waiting.exception()
        if failure is not None:
            _log.error("the heads failed: %s: %s", type(failure).__name__, failure)
            return None
        return waiting.result()

    def close(self) -> None:
        """Take no more calls."""
        self._thread.shutdown(wait=False, cancel_futures=True)


def _forget(late: asyncio.Future[Foreseen]) -> None:
    """Look at the late answer's failure, so that nobody warns that it was never looked at."""
    if not late.cancelled():
        late.exception()
