"""The pool as a policy sees it: what never changes, and what telemetry and dead reckoning say.

A policy reads a ``PoolState`` and writes its own assignments back into it, so that the next request
of the batch sees them (dead reckoning, Algorithm 1 of arXiv 2606.17949).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rbx.config.pool import Pool
from rbx.engine.telemetry import PoolTelemetry

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class PoolShape(NamedTuple):
    """What never changes about I instances; every array has shape (I,)."""

    model: Ints
    tier: Ints
    price_in_usd: Floats  # per token
    price_out_usd: Floats  # per token
    max_num_seqs: Ints
    max_model_len: Ints
    tpot_prior_s: Floats

    @classmethod
    def of(cls, pool: Pool) -> PoolShape:
        """The shape of a pool file."""
        instances = pool.instances
        tiers = [instance.tier for instance in instances]
        return cls(
            model=np.array([instance.model_index for instance in instances], dtype=np.int64),
            tier=np.array([instance.tier_index for instance in instances], dtype=np.int64),
            price_in_usd=np.array([tier.price_in_usd_per_mtok / 1e6 for tier in tiers]),
            price_out_usd=np.array([tier.price_out_usd_per_mtok / 1e6 for tier in tiers]),
            max_num_seqs=np.array([tier.limits.max_num_seqs for tier in tiers], dtype=np.int64),
            max_model_len=np.array([tier.limits.max_model_len for tier in tiers], dtype=np.int64),
            tpot_prior_s=np.array([tier.tpot_prior_s for tier in tiers]),
        )

    @property
    def n_instances(self) -> int:
        """I, the length of every array."""
        return len(self.model)


class PoolState(NamedTuple):
    """Load of I instances at one decision; arrays (I,) that a policy updates in place.

    ``last_used`` holds the sequence number of the newest assignment, −1 where there was none.
    """

    running: Ints
    waiting: Ints
    pending_prefill_tokens: Ints
    pending_decode_tokens: Floats
    alive: NDArray[np.bool_]
    last_used: Ints

    @classmethod
    def idle(cls, n_instances: int) -> PoolState:
        """Nothing running, everything alive."""
        return cls(
            running=np.zeros(n_instances, dtype=np.int64),
            waiting=np.zeros(n_instances, dtype=np.int64),
            pending_prefill_tokens=np.zeros(n_instances, dtype=np.int64),
            pending_decode_tokens=np.zeros(n_instances),
            alive=np.ones(n_instances, dtype=np.bool_),
            last_used=np.full(n_instances, -1, dtype=np.int64),
        )

    def show(self, telemetry: PoolTelemetry) -> None:
        """Overwrite the load with what a snapshot says; aliveness and last use are kept."""
        self.running[:] = telemetry.running
        self.waiting[:] = telemetry.waiting
        self.pending_prefill_tokens[:] = telemetry.pending_prefill_tokens
        self.pending_decode_tokens[:] = telemetry.pending_decode_tokens
