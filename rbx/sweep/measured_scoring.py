"""Measure on this machine what ``scheduler.scoring_cost`` describes: scoring calls, router by router."""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from rbx.config.scoring_cost import ScoringCost
from rbx.heads.bundle import Bundle
from rbx.heads.routers.head import RouterHead
from rbx.heads.text_by_text import on_one_core
from rbx.serve.gateway.scoring.scorer import foresee

Floats = NDArray[np.float64]

# Prompts of one call, in words; common English words are a token each. Mixed calls tell padding from none.
_CALLS: tuple[tuple[int, ...], ...] = (
    (8,),
    (64,),
    (240,),
    (64,) * 4,
    (8, 8, 8, 240),
    (64,) * 16,
    (8,) * 15 + (240,),
)
_ALONE = 64  # words of the prompt that is scored alone and beside others
_MARKS = 2  # tokens that an encoder adds to a text
_CALLS_A_WORKER = 3


@dataclass(frozen=True)
class ScoringSample:
    """Seconds of one call for prompts of ``tokens`` each, the quickest of several."""

    tokens: tuple[int, ...]
    seconds: float


@dataclass(frozen=True)
class MeasuredScoring:
    """The samples of one router, the cost fitted to them, and its largest relative error."""

    router: str
    samples: tuple[ScoringSample, ...]
    cost: ScoringCost
    largest_error: float


def measure_scoring(
    bundle: Bundle, name: str, router: RouterHead | None, *, workers: int, repeats: int
) -> MeasuredScoring:
    """Time calls alone, then ``workers`` of them side by side; ``router`` None asks the bundle's heads alone.

    Padding is taken for what fits the mixed calls better.
    """
    timed = _Timed(bundle, router)
    timed.call_s(_CALLS[-1])
    samples = tuple(
        ScoringSample(tuple(words + _MARKS for words in call), timed.least_s(call, repeats))
        for call in _CALLS
    )
    fits = [fitted(samples, bundle.encoder_cost().max_tokens, padded=padded) for padded in (False, True)]
    cost, error = min(fits, key=lambda fit: fit[1])
    alone_s = timed.median_s((_ALONE,), repeats)
    slowdown = max(1.0, timed.beside_s(workers) / alone_s)
    slowed = cost.model_copy(update={"worker_slowdown": float(f"{slowdown:.2g}")})
    return MeasuredScoring(name, samples, slowed, error)


def fitted(samples: Sequence[ScoringSample], max_tokens: int, *, padded: bool) -> tuple[ScoringCost, float]:
    """Non-negative costs by least squares of relative errors, two digits each, and the largest of those."""
    sizes = np.array([len(sample.tokens) for sample in samples], dtype=np.float64)
    read = [np.minimum(sample.tokens, max_tokens) for sample in samples]
    tokens = np.array([len(each) * each.max() if padded else each.sum() for each in read], dtype=np.float64)
    seconds = np.array([sample.seconds for sample in samples])
    design = np.column_stack([np.ones_like(sizes), sizes, tokens])
    found, _ = nnls(design / seconds[:, None], np.ones_like(seconds))
    fixed_s, per_request_s, per_token_s = (float(f"{value:.2g}") for value in found)
    cost = ScoringCost(
        fixed_s=fixed_s,
        per_request_s=per_request_s,
        per_token_s=per_token_s,
        max_tokens=max_tokens,
        padded=padded,
    )
    predicted: Floats = design @ np.array([fixed_s, per_request_s, per_token_s])
    return cost, float(np.abs(predicted / seconds - 1.0).max())


class _Timed:
    """Calls about texts of which no two are alike: a router may remember what it was asked last."""

    def __init__(self, bundle: Bundle, router: RouterHead | None) -> None:
        self._bundle, self._router = bundle, router
        self._count = itertools.count()

    def call_s(self, words: Sequence[int]) -> float:
        texts = [_text(each, next(self._count)) for each in words]
        start = time.perf_counter()
        foresee(self._bundle, texts, self._router)
        return time.perf_counter() - start

    def least_s(self, words: Sequence[int], repeats: int) -> float:
        """The quickest of so many calls: other work on the machine only adds to them."""
        return min(self.call_s(words) for _ in range(repeats))

    def median_s(self, words: Sequence[int], repeats: int) -> float:
        return statistics.median(self.call_s(words) for _ in range(repeats))

    def beside_s(self, workers: int) -> float:
        """Median of a call on one of several workers, all of them busy."""
        calls = workers * (_CALLS_A_WORKER + 2)
        with ThreadPoolExecutor(workers, initializer=on_one_core) as threads:
            took = list(threads.map(self.call_s, [(_ALONE,)] * calls))
        # The first ones find the others starting, the last ones find them gone.
        return statistics.median(took[workers:-workers])


def _text(words: int, number: int) -> str:
    run = ["the", "river", "runs", "past", "seven", "old", "houses", "and", "a", "mill"]
    return " ".join([str(number), *itertools.islice(itertools.cycle(run), words - 1)])
