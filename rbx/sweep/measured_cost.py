"""Measure on this machine what ``scheduler.decision_cost`` describes."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from rbx.config.experiment import DecisionCost
from rbx.config.policy import RouteBalancePolicy
from rbx.config.pool import Pool
from rbx.engine.telemetry import PoolTelemetry
from rbx.heads.bundle import Bundle
from rbx.policy.pool_state import PoolShape, PoolState
from rbx.policy.request_table import RequestTable
from rbx.policy.routebalance import RouteBalance
from rbx.policy.view import PoolView

_WORDS = (8, 32, 64, 128, 240)
_BATCHES = (1, 4, 16, 32)


@dataclass(frozen=True)
class Sample:
    """Median seconds of one call: encoding ``size`` tokens, or scoring a batch of ``size``."""

    what: str
    size: int
    seconds: float
    repeats: int


@dataclass(frozen=True)
class MeasuredCost:
    """The samples and the lines through them."""

    samples: tuple[Sample, ...]
    cost: DecisionCost


def measure_decision_cost(bundle: Bundle, pool: Pool, repeats: int) -> MeasuredCost:
    """Time encoder and scoring alone on this machine; fits cost = fixed + slope·size for each."""
    encode = [_time_encoder(bundle, words, repeats) for words in _WORDS]
    score = [_time_scoring(bundle, pool, size, repeats) for size in _BATCHES]
    per_request_s, per_token_s = _line(encode)
    fixed_s, per_scored_s = _line(score)
    cost = DecisionCost(
        fixed_s=fixed_s,
        per_request_s=per_scored_s,
        encode_s_per_request=per_request_s,
        encode_s_per_token=per_token_s,
        encode_max_tokens=bundle.encoder_cost().max_tokens,
    )
    return MeasuredCost((*encode, *score), cost)


def _median_s(call: Callable[[], object], repeats: int) -> float:
    call()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def _time_encoder(bundle: Bundle, words: int, repeats: int) -> Sample:
    # Common English words are one word piece each; the encoder adds two marks of its own.
    text = " ".join(("the river runs past seven old houses and a mill " * 40).split()[:words])
    return Sample("encode", words + 2, _median_s(lambda: bundle.encode([text]), repeats), repeats)


def _time_scoring(bundle: Bundle, pool: Pool, size: int, repeats: int) -> Sample:
    """KNN, TPOT heads and Algorithm 1 for one batch; the prompts are already encoded."""
    shape = PoolShape.of(pool)
    n, rng = shape.n_instances, np.random.default_rng(0)
    embeddings = rng.standard_normal((size, bundle.knn.dim)).astype(np.float32)
    embeddings /= np.linalg.norm(embeddings, axis=1, keepdims=True)
    load = rng.integers(0, 60, n)
    zeros = np.zeros(n, dtype=np.int64)
    telemetry = PoolTelemetry(
        np.zeros(n), load, zeros, zeros, load * 200, load * 300, zeros + 500, zeros + 1000, zeros
    )
    view = PoolView(0.0, 0.0, 0.0, np.zeros(size), telemetry)
    weights = (1 / 3, 1 / 3, 1 / 3)
    policy = RouteBalance(RouteBalancePolicy(weights=weights), shape, bundle.tpot)
    columns = [bundle.models.index(model) for model in pool.models]

    def decide() -> None:
        predicted = bundle.knn.predict(embeddings)
        table = RequestTable(
            input_tokens=np.full(size, 60),
            max_tokens=np.full(size, 1024),
            budget_usd=np.full(size, np.inf),
            quality=predicted.quality[:, columns],
            length_tokens=predicted.length_tokens[:, columns],
            ttft_target_s=np.full(size, np.inf),
        )
        state = PoolState.idle(n)
        state.show(telemetry)
        policy.assign(np.arange(size), table, view, state)

    return Sample("score", size, _median_s(decide, repeats), repeats)


def _line(samples: list[Sample]) -> tuple[float, float]:
    """Non-negative intercept and slope in seconds, fitted to relative errors, two digits each."""
    sizes = np.array([sample.size for sample in samples], dtype=float)
    seconds = np.array([sample.seconds for sample in samples])
    design = np.column_stack([np.ones_like(sizes), sizes]) / seconds[:, None]
    intercept, slope = np.linalg.lstsq(design, np.ones_like(sizes), rcond=None)[0]
    if intercept < 0:
        intercept, slope = 0.0, float(1.0 / np.mean(sizes / seconds))
    return float(f"{intercept:.2g}"), float(f"{max(slope, 0.0):.2g}")
