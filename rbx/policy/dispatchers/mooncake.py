"""Mooncake's prefill scheduling, adapted: least time of the prompts in line, each priced on its own."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rbx.config.dispatch import Mooncake
from rbx.engine import snapshot_columns as snap
from rbx.engine.instance_profile import InstanceProfile
from rbx.engine.instance_snapshot import InstanceSnapshot
from rbx.heads.bea.unseen import UnseenRequests
from rbx.policy.ask import Ask
from rbx.policy.base import Needs
from rbx.policy.dispatchers.instance_score import Candidates, Floats
from rbx.policy.pool_state import PoolState
from rbx.policy.view import PoolView, Served

Ints = NDArray[np.int64]


class PromptSeconds:
    """Σ T(left of q) + T(prompt) over requests waiting, in prefill and unseen.

    T(n tokens after c) = share·b0 + prefill·n + squared·n² + cross·n·c with the coefficients of the step
    model. A chunk in a formed batch counts as done, as in the snapshot.
    """

    needs = Needs(snapshots=True)

    def __init__(self, config: Mooncake, profiles: tuple[InstanceProfile, ...]) -> None:
        """One profile for each instance."""
        rows = np.array([profile.coefficients_row for profile in profiles])
        fixed_s, self._per_token_s, _, _, self._squared_s, self._cross_s = rows.T
        self._fixed_s = config.step_share * fixed_s
        self._in_line_s = np.zeros(len(profiles))

    def look(self, view: PoolView, state: PoolState) -> None:
        """Price what stands in line."""
        pairs = zip(view.snapshots, view.unseen, strict=True)
        self._in_line_s = np.array([self._line_s(i, *pair) for i, pair in enumerate(pairs)])

    def score(self, ask: Ask, candidates: Candidates, state: PoolState) -> Floats:
        """See ``InstanceScore.score``."""
        return np.asarray(self._in_line_s + self._prompt_s(ask))

    def book(self, ask: Ask, instance: int) -> None:
        """Its prompt joins the line."""
        self._in_line_s[instance] += self._prompt_s(ask)[instance]

    def learn(self, served: Served) -> None:
        """Nothing: the snapshots say all."""

    def _prompt_s(self, ask: Ask) -> Floats:
        n = ask.input_tokens
        return np.asarray(self._fixed_s + self._per_token_s * n + self._squared_s * n * n)

    def _line_s(self, i: int, snapshot: InstanceSnapshot, unseen: UnseenRequests) -> float:
        rows = snapshot.requests
        in_prefill = rows[: snapshot.running][rows[: snapshot.running, snap.PREFILLING] == 1]
        waiting = np.concatenate([rows[snapshot.running :], unseen.requests])
        computed = np.concatenate([in_prefill[:, snap.COMPUTED], waiting[:, snap.CACHED]])
        known = np.concatenate([in_prefill, waiting])[:, [snap.PROMPT, snap.GENERATED]].sum(axis=1)
        left = known - computed
        return float(
            len(left) * self._fixed_s[i]
            + self._per_token_s[i] * left.sum()
            + self._squared_s[i] * (left * left).sum()
            + self._cross_s[i] * (left * computed).sum()
        )
