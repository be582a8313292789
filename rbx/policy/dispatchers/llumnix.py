"""Llumnix's freeness without its migration ("Llumnix--"): free KV blocks for each request there."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rbx.policy.ask import Ask
from rbx.policy.dispatchers.instance_score import Candidates, Floats, OfTheState
from rbx.policy.pool_state import PoolState
from rbx.policy.view import PoolView


class Freeness(OfTheState):
    """−free blocks ÷ (running + waiting), −∞ on an idle instance.

    Dead reckoning: the prompts that telemetry does not show, those of this batch among them, have taken
    their blocks already.
    """

    def __init__(self, block_size: NDArray[np.int64]) -> None:
        """Tokens a KV block, (I,)."""
        self._block_size = block_size
        self._free_blocks = np.zeros(len(block_size), dtype=np.int64)
        self._shown_tokens = np.zeros(len(block_size), dtype=np.int64)

    def look(self, view: PoolView, state: PoolState) -> None:
        """Blocks and prompts as telemetry shows them."""
        self._free_blocks = view.telemetry.free_blocks
        self._shown_tokens = view.telemetry.pending_prefill_tokens

    def score(self, ask: Ask, candidates: Candidates, state: PoolState) -> Floats:
        """See ``InstanceScore.score``."""
        unseen_tokens = state.pending_prefill_tokens - self._shown_tokens
        free = self._free_blocks + unseen_tokens // -self._block_size  # rounds the taken ones up
        requests = state.running + state.waiting
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(np.where(requests > 0, -free / requests, -np.inf))
