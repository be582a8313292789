"""The scheduler's requests as rows of a snapshot, gathered with as little work per step as possible.

What never changes of a request is computed once and kept in a table; what changes is read from vLLM's
own objects at every step, so that nothing here can drift from them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rbx.engine import snapshot_columns as snap
from rbx.serve.plugin.layout import ID, ROW_COLUMNS, published_id

_id = attrgetter("request_id")
_computed = attrgetter("num_computed_tokens")
_preemptions = attrgetter("num_preemptions")
_answer = attrgetter("_output_token_ids")
_in_prefill = attrgetter("is_prefill_chunk")

NOBODY: frozenset[str] = frozenset()


class RequestRows:
    """Rows of up to ``capacity`` requests.

    ``unmodelled`` counts those met so far that use what rbx does not model.
    """

    def __init__(self, capacity: int, max_model_len: int) -> None:
        """Start with no requests."""
        self.unmodelled = 0
        self._max_model_len = max_model_len
        self._rows = np.zeros((capacity, ROW_COLUMNS), dtype=np.int64)
        self._constants = np.zeros((256, ROW_COLUMNS), dtype=np.int64)
        self._slots: dict[str, int] = {}
        self._free: deque[int] = deque(range(len(self._constants)))
        self._order: list[Any] = []
        self._running = 0
        self._stale = 0  # waiting requests at the front that a batch in flight still gives a token

    def fill(
        self,
        running: list[Any],
        waiting: Iterable[Any],
        blocks: dict[str, list[Any]],
        yields: Collection[str],
        yields_ahead: Collection[str],
    ) -> tuple[NDArray[np.int64], int]:
        """Rows in order, (N, ROW_COLUMNS), a view that the next call overwrites; and how many are left out.

        ``blocks`` holds the KV blocks by request; ``yields`` are the ids that the running step gives a
        token, ``yields_ahead`` those of the batch formed ahead.
        """
        order = [*running, *waiting]
        left_out = max(0, len(order) - len(self._rows))
        if left_out:
            del order[len(self._rows) :]
        n, total = len(running), len(order)
        rows = self._rows[:total]
        if n != self._running or order != self._order:
            self._rearrange(order, n)
        names = list(map(_id, running))
        rows[:n, snap.COMPUTED] = np.fromiter(map(_computed, running), np.int64, n)
        rows[:, snap.GENERATED] = np.fromiter(map(len, map(_answer, order)), np.int64, total)
        rows[:n, snap.BLOCKS] = np.fromiter(map(len, map(blocks.__getitem__, names)), np.int64, n)
        rows[:n, snap.PREFILLING] = np.fromiter(map(_in_prefill, running), np.int64, n)
        rows[:n, snap.YIELDS] = np.fromiter(map(yields.__contains__, names), np.int64, n)
        rows[:n, snap.YIELDS_AHEAD] = np.fromiter(map(yields_ahead.__contains__, names), np.int64, n)
        self._mark_stale(order[n:], rows[n:], yields)
        return rows, left_out

    def _rearrange(self, order: list[Any], running: int) -> None:
        slots = self._slots
        if len(slots) > 2 * len(order) + 64:
            self._forget_all_but(order)
        for request in order:
            if request.request_id not in slots:
                self._meet(request)
        rows = self._rows[: len(order)]
        places = np.fromiter(map(slots.__getitem__, map(_id, order)), np.intp, len(order))
        np.take(self._constants, places, axis=0, out=rows)
        rows[:, snap.PREEMPTIONS] = np.fromiter(map(_preemptions, order), np.int64, len(order))
        self._order, self._running, self._stale = order, running, 0

    def _meet(self, request: Any) -> None:
        if not self._free:
            first = len(self._constants)
            self._constants = np.concatenate([self._constants, np.zeros_like(self._constants)])
            self._free.extend(range(first, len(self._constants)))
        slot = self._free.popleft()
        self._slots[request.request_id] = slot
        prompt, row = request.num_prompt_tokens, self._constants[slot]
        row[snap.PROMPT] = prompt
        row[snap.CAP] = max(1, min(request.max_tokens, self._max_model_len - prompt))
        row[ID] = published_id(request.request_id)
        self.unmodelled += _outside_the_model(request)

    def _forget_all_but(self, order: list[Any]) -> None:
        present = set(map(_id, order))
        for name in [name for name in self._slots if name not in present]:
            self._free.append(self._slots.pop(name))

    def _mark_stale(self, waiting: list[Any], rows: NDArray[np.int64], yields: Collection[str]) -> None:
        """Those preempted while the running step computes a token of them stand at the front."""
        stale = 0
        while stale < len(waiting) and waiting[stale].request_id in yields:
            stale += 1
        rows[: max(stale, self._stale), snap.YIELDS] = 0
        rows[:stale, snap.YIELDS] = 1
        self._stale = stale


def _outside_the_model(request: Any) -> bool:
    return bool(
        request.use_structured_output
        or request.has_encoder_inputs
        or request.lora_request is not None
        or request.pooling_params is not None
        or request.resumable
    )
