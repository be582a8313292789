"""vLLM Semantic Router's latency-aware selection: percentiles over windows of each model's answers."""

from __future__ import annotations

from collections import deque

import numpy as np

from rbx.config.dispatch import VllmSr
from rbx.policy.ask import Ask
from rbx.policy.base import Ints, Needs
from rbx.policy.dispatchers.instance_score import Candidates, Floats
from rbx.policy.pool_state import PoolState
from rbx.policy.view import PoolView, Served


class _Window:
    """The newest values of one model and metric: their percentile, or an average of too few."""

    def __init__(self, config: VllmSr, quantile: float) -> None:
        self._values: deque[float] = deque(maxlen=config.window)
        self._average = np.nan
        self._config = config
        self._quantile = quantile

    def add(self, value: float) -> None:
        first = not self._values
        self._values.append(value)
        weight = self._config.ewma_weight
        self._average = value if first else self._average + weight * (value - self._average)

    @property
    def level(self) -> float:
        """NaN without data."""
        if len(self._values) < self._config.least_samples:
            return self._average
        return float(np.quantile(np.array(self._values), self._quantile))


class ModelPercentiles:
    """Mean of TTFT ÷ least TTFT and TPOT ÷ least TPOT over the candidates' models.

    Among the replicas of a model all scores are equal, and the shortest queue decides. A metric without
    data is left out, a model without any data too; if there are none, the first candidate is taken.
    """

    needs = Needs(served=True)

    def __init__(self, config: VllmSr, model: Ints) -> None:
        """``model`` (I,) numbers each instance's model."""
        self._model = model
        self._models = int(model.max()) + 1
        self._ttft = [_Window(config, config.ttft_quantile) for _ in range(self._models)]
        self._tpot = [_Window(config, config.tpot_quantile) for _ in range(self._models)]
        self._levels = np.full((2, self._models), np.nan)  # TTFT, TPOT
        self._to_warm_up = np.full(self._models, config.warm_up_requests)

    def look(self, view: PoolView, state: PoolState) -> None:
        """The past says all."""

    def score(self, ask: Ask, candidates: Candidates, state: PoolState) -> Floats:
        """See ``InstanceScore.score``; a model that still warms up comes first."""
        present = np.zeros(self._models, dtype=bool)
        present[self._model[candidates]] = True
        warming = np.where(present, self._to_warm_up, 0)
        if warming.any():
            return np.asarray(-warming[self._model].astype(np.float64))
        levels = np.where(present, self._levels, np.nan)
        known = ~np.isnan(levels)
        if not known.any():
            return self._model.astype(np.float64)
        least = np.min(levels, axis=1, where=known, initial=np.inf, keepdims=True)
        ratio = np.where(known, levels / least, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
        return np.asarray(np.where(known.any(axis=0), ratio, np.inf)[self._model])

    def book(self, ask: Ask, instance: int) -> None:
        """Counts the warm-up."""
        model = self._model[instance]
        self._to_warm_up[model] = max(self._to_warm_up[model] - 1, 0)

    def learn(self, served: Served) -> None:
        """Every answer adds to its model's windows; one of a single token has no TPOT."""
        columns = (self._model[served.instance], served.ttft_s, served.tpot_s)
        for model, ttft_s, tpot_s in zip(*(column.tolist() for column in columns), strict=True):
            self._ttft[model].add(ttft_s)
            if not np.isnan(tpot_s):
                self._tpot[model].add(tpot_s)
        for model in np.unique(columns[0]).tolist():
            self._levels[:, model] = self._ttft[model].level, self._tpot[model].level
