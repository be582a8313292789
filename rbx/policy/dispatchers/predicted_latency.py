"""Predicted-latency dispatch after llm-d: quantile models of TTFT and TPOT, learned while serving."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

import numpy as np

from rbx.config.dispatch import PredictedLatency
from rbx.heads.trees import PackedTrees, predict_rows
from rbx.policy.ask import Ask
from rbx.policy.base import Ints, Needs
from rbx.policy.dispatchers.instance_score import Candidates, Floats
from rbx.policy.dispatchers.quantile_trees import fit_quantile
from rbx.policy.pool_state import PoolState
from rbx.policy.view import PoolView, Served


class _Sample(NamedTuple):
    features: Floats
    ttft_s: float
    tpot_s: float


class Headroom:
    """What is left of the targets after the predicted P90s, retrained as answers come in.

    Features: KV use, prompt tokens, waiting, running, and the tier if told; nothing else of the instance.
    Among the candidates within the targets the least headroom wins (or the most), and with nobody
    within them the least violation. No target counts as 0: the fastest wins. Until the first training
    the shortest queue decides.
    """

    needs = Needs(served=True)

    def __init__(self, config: PredictedLatency, tier: Ints) -> None:
        """``tier`` (I,) numbers each instance's tier."""
        self._config = config
        self._tier = tier if config.by_tier else np.zeros_like(tier)
        self._one_model = np.zeros(len(tier), dtype=np.int64)
        self._samples: deque[_Sample] = deque(maxlen=config.window)
        self._since_training = 0
        self._ttft: PackedTrees | None = None
        self._tpot: PackedTrees | None = None
        self._under_way: dict[int, tuple[Floats, float]] = {}
        self._kv_use = np.zeros(len(tier))
        self._features = np.zeros((len(tier), 5))
        self._leaves_s = 0.0

    def look(self, view: PoolView, state: PoolState) -> None:
        """KV use, and what of a TTFT is not the instance's."""
        telemetry = view.telemetry
        self._kv_use = 1.0 - telemetry.free_blocks / telemetry.total_blocks
        self._leaves_s = view.enters_s + view.returns_s

    def score(self, ask: Ask, candidates: Candidates, state: PoolState) -> Floats:
        """See ``InstanceScore.score``."""
        prompt = np.full(len(candidates), ask.input_tokens)
        self._features = np.column_stack([self._kv_use, prompt, state.waiting, state.running, self._tier])
        if self._ttft is None:
            return np.asarray(state.waiting + state.running, dtype=np.float64)
        target_s = ask.ttft_target_s if np.isfinite(ask.ttft_target_s) else 0.0
        slack = (target_s - ask.waited_s - self._predict(self._ttft))[:, None]
        weights = np.ones(1)
        if self._config.tpot_target_s is not None and self._tpot is not None:
            tpot_slack = self._config.tpot_target_s - self._predict(self._tpot)
            slack = np.column_stack([slack, tpot_slack])
            weights = np.array([self._config.ttft_weight, 1.0 - self._config.ttft_weight])
        within = candidates & (slack >= 0.0).all(axis=1)
        if not within.any():
            return np.asarray(np.maximum(-slack, 0.0) @ weights)
        headroom = slack @ weights
        return np.where(within, headroom if self._config.headroom == "least" else -headroom, np.inf)

    def book(self, ask: Ask, instance: int) -> None:
        """Note what was known of the instance when it was chosen."""
        self._under_way[ask.row] = self._features[instance], self._leaves_s

    def learn(self, served: Served) -> None:
        """Collect samples, and train when enough are new."""
        columns = (served.request, served.first_token_s, served.tpot_s)
        for row, first_token_s, tpot_s in zip(*(column.tolist() for column in columns), strict=True):
            features, leaves_s = self._under_way.pop(row)
            self._samples.append(_Sample(features, first_token_s - leaves_s, tpot_s))
        self._since_training += len(served.request)
        if self._since_training >= self._config.retrain_every:
            self._since_training = 0
            self._train()

    def _predict(self, trees: PackedTrees) -> Floats:
        return np.asarray(predict_rows(trees, self._features, self._one_model))

    def _train(self) -> None:
        features, ttft_s, tpot_s = (np.array(column) for column in zip(*self._samples, strict=True))
        self._ttft = self._fit(features, ttft_s)
        told = ~np.isnan(tpot_s)
        if self._config.tpot_target_s is not None and told.any():
            self._tpot = self._fit(features[told], tpot_s[told])

    def _fit(self, features: Floats, values: Floats) -> PackedTrees:
        config = self._config
        return fit_quantile(features, values, config.quantile, config.trees, config.depth)
