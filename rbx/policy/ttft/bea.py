"""BEA (arXiv 2607.18253) as an estimator: replay every candidate's batches up to the first token."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rbx.engine.instance_snapshot import InstanceSnapshot
from rbx.heads.bea.lengths import LengthRule
from rbx.heads.bea.prediction import Probe, ReplayCaps
from rbx.heads.bea.ttft import predict_ttft
from rbx.heads.bea.unseen import UnseenRequests, waiting_row
from rbx.policy.base import Needs
from rbx.policy.pool_state import PoolShape, PoolState
from rbx.policy.ttft.handicap import Handicap
from rbx.policy.view import PoolView, Served

Floats = NDArray[np.float64]

_WHOLE = ReplayCaps()


@dataclass
class _Queue:
    """One instance during a decision: its snapshot, and what stands in line that it does not show."""

    snapshot: InstanceSnapshot
    unseen: UnseenRequests
    rule: LengthRule

    def append(self, enters_s: float, row: NDArray[np.int64]) -> None:
        times = np.append(self.unseen.dispatched_s, enters_s)
        self.unseen = UnseenRequests(times, np.vstack([self.unseen.requests, row]))


class BeaTtft:
    """Exact up to the lengths of the others and to whoever comes later; see ``docs/bea.md``."""

    def __init__(
        self, shape: PoolShape, lengths: tuple[LengthRule, ...], handicap: Handicap | None = None
    ) -> None:
        """``lengths`` holds one rule for each model; a handicap spoils what is seen, for ablations."""
        self.needs = Needs(snapshots=True)
        self._rules = tuple(lengths[model] for model in shape.model.tolist())
        self._handicap = handicap
        self._enters_s = 0.0
        self._queues: list[_Queue] = []

    def look(self, view: PoolView, state: PoolState) -> None:
        """See ``TtftEstimator.look``."""
        snapshots = view.snapshots
        if self._handicap is not None:
            snapshots = tuple(self._handicap.spoil(snapshot) for snapshot in snapshots)
        self._enters_s = view.enters_s
        self._queues = [_Queue(*three) for three in zip(snapshots, view.unseen, self._rules, strict=True)]

    def ttft_s(
        self, input_tokens: int, candidates: NDArray[np.bool_], state: PoolState, within_s: float = np.inf
    ) -> Floats:
        """See ``TtftEstimator.ttft_s``; a replay that gave up after a minute counts with its lower bound."""
        seconds = np.full(len(self._queues), np.inf)
        probe = Probe(input_tokens)
        caps = _WHOLE if within_s == np.inf else ReplayCaps(horizon_s=within_s)
        for i in np.flatnonzero(candidates).tolist():
            queue = self._queues[i]
            predicted = predict_ttft(
                queue.snapshot,
                probe,
                now_s=self._enters_s,
                unseen=queue.unseen,
                lengths=queue.rule,
                caps=caps,
            )
            if caps is _WHOLE or not predicted.is_lower_bound:
                seconds[i] = predicted.seconds
        return seconds

    def book(self, instance: int, input_tokens: int, max_tokens: int, length_tokens: float) -> None:
        """See ``TtftEstimator.book``."""
        row = waiting_row(input_tokens, max_tokens, length_tokens)
        self._queues[instance].append(self._enters_s, row)

    def learn(self, served: Served) -> None:
        """Nothing: a replay has no memory."""
