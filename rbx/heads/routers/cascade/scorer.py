"""The answer scorer of a cascade: g(prompt, answer) in [0, 1], learnt from a grid's answers and scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rbx.heads.encoder import Embeddings
from rbx.heads.routers.cascade.answer_features import ALL_PARTS, Parts, answer_features
from rbx.heads.routers.cascade.ridge import Ridge, fit_ridge

Floats = NDArray[np.float64]

PENALTIES = tuple(10.0**power for power in range(-1, 4))


@dataclass(frozen=True)
class AnswerScorer:
    """One ridge regression a model on features of prompt and answer; ``weights`` (M, F), ``offset`` (M,)."""

    parts: Parts
    weights: Floats
    offset: Floats

    def score(self, model: int, prompts: Embeddings, answers: Embeddings, texts: Sequence[str]) -> Floats:
        """g (N,) of N answers of one model; a row does not depend on the others."""
        features = answer_features(self.parts, prompts, answers, texts)
        # Row by row: a product over all rows may add in another order.
        found = [float(row @ self.weights[model]) for row in features]
        return np.asarray(np.clip(np.array(found) + self.offset[model], 0.0, 1.0))


class Fitted(NamedTuple):
    """A scorer, g of each training answer by the fit without it (N, M), NaN where there was none, and what
    the choice of parts cost: mean squared error left out, by parts."""

    scorer: AnswerScorer
    left_out: Floats
    errors: dict[str, float]


def fit_scorer(
    prompts: Embeddings, answers: Sequence[Embeddings], texts: Sequence[Sequence[str | None]], score: Floats
) -> Fitted:
    """Fit M models' answers to N prompts: ``answers`` M × (N, dim), ``texts`` M × N, ``score`` (N, M).

    A pair without a text or a score is left out. The parts and each model's penalty are those of the least
    leave-one-out error.
    """
    fits = {parts: _fits(parts, prompts, answers, texts, score) for parts in ALL_PARTS}
    errors = {parts: _error(fitted, score) for parts, fitted in fits.items()}
    best = min(ALL_PARTS, key=lambda parts: errors[parts])
    left_out = np.full(score.shape, np.nan)
    for model, (rows, ridge) in enumerate(fits[best]):
        left_out[rows, model] = np.clip(ridge.left_out, 0.0, 1.0)
    scorer = AnswerScorer(
        best,
        np.array([ridge.weights for _, ridge in fits[best]]),
        np.array([ridge.offset for _, ridge in fits[best]]),
    )
    return Fitted(scorer, left_out, {str(parts): error for parts, error in errors.items()})


def _fits(
    parts: Parts,
    prompts: Embeddings,
    answers: Sequence[Embeddings],
    texts: Sequence[Sequence[str | None]],
    score: Floats,
) -> list[tuple[NDArray[np.int64], Ridge]]:
    fits = []
    for model, said in enumerate(texts):
        told = np.array([text is not None for text in said], dtype=np.bool_)
        rows = np.flatnonzero(told & ~np.isnan(score[:, model]))
        words = [said[row] or "" for row in rows.tolist()]
        features = answer_features(parts, prompts[rows], answers[model][rows], words)
        fits.append((rows, fit_ridge(features, score[rows, model], PENALTIES)))
    return fits


def _error(fits: list[tuple[NDArray[np.int64], Ridge]], score: Floats) -> float:
    """Mean squared leave-one-out error over all answers of all models."""
    off = [np.clip(ridge.left_out, 0.0, 1.0) - score[rows, m] for m, (rows, ridge) in enumerate(fits)]
    return float(np.mean(np.concatenate(off) ** 2))
