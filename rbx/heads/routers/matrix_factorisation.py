"""RouteLLM's matrix factorisation: a score of model and prompt whose differences say who wins.

arXiv 2406.18665, section 4.1: δ(M, q) = v_M · (Wᵀ e_q + b), P(M beats N on q) = σ(δ(M, q) − δ(N, q)),
fitted by logistic loss over pairs in which one answer scored higher than the other. The paper routes
between a strong and a weak model by a threshold on P(strong wins); over more models the highest δ wins.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from rbx.errors import BundleError
from rbx.heads.encoder import Embeddings
from rbx.heads.routers.head import Arrays, AskedPrompts
from rbx.heads.routers.task import Floats, Ints, RouterTask
from rbx.heads.routers.threshold import checked_threshold

RANK = 64
BATCH = 64
PASSES = 100
PATIENCE = 10
STEP = 3e-3
DECAY = 1e-3
HELD_OUT = 0.1
# Adam's usual constants (arXiv 1412.6980).
_KEEP_MEAN, _KEEP_SQUARE, _TINY = 0.9, 0.999, 1e-8


@dataclass(frozen=True)
class MatrixFactorisation:
    """``project`` (dim, R), ``offset`` (R,), ``vectors`` (M, R).

    With a ``threshold`` the choice is between ``strong`` and ``weak`` alone; the others score below both.
    """

    models: tuple[str, ...]
    project: Floats
    offset: Floats
    vectors: Floats
    strong: str
    weak: str
    threshold: float | None = None
    passes: int = 0

    @property
    def described(self) -> dict[str, Any]:
        """See ``RouterHead``."""
        return {
            "models": list(self.models),
            "rank": self.vectors.shape[1],
            "strong": self.strong,
            "weak": self.weak,
            "passes": self.passes,
        }

    @property
    def arrays(self) -> Arrays:
        """See ``RouterHead``."""
        return {"project": self.project, "offset": self.offset, "vectors": self.vectors}

    def between(self, threshold: float) -> MatrixFactorisation:
        """The same factors, choosing the strong model where P(strong beats weak) ≥ ``threshold``."""
        return replace(self, threshold=checked_threshold(threshold))

    def strong_wins(self, embeddings: Embeddings) -> Floats:
        """P(strong beats weak), (P,)."""
        strong, weak = self.models.index(self.strong), self.models.index(self.weak)
        delta = self._delta(embeddings)
        return np.asarray(expit(delta[:, strong] - delta[:, weak]))

    def score(self, prompts: AskedPrompts) -> Floats:
        """δ, or with a threshold what it leaves of strong and weak; see ``RouterHead``."""
        if self.threshold is None:
            return self._delta(prompts.embeddings)
        wins = self.strong_wins(prompts.embeddings) >= self.threshold
        found = np.full((len(prompts.texts), len(self.models)), -2.0)
        found[:, self.models.index(self.weak)] = 0.0
        found[:, self.models.index(self.strong)] = np.where(wins, 1.0, -1.0)
        return found

    def _delta(self, embeddings: Embeddings) -> Floats:
        return np.asarray((embeddings.astype(np.float64) @ self.project + self.offset) @ self.vectors.T)


def train(task: RouterTask, seed: int) -> MatrixFactorisation:
    """Adam over prompts, stopped by the loss on a tenth; raises ``BundleError`` if nobody ever wins."""
    rng = np.random.default_rng([seed, 17])
    wins = task.score[:, :, None] > task.score[:, None, :]  # false where a label is missing
    deciding = np.flatnonzero(wins.any(axis=(1, 2)))
    if len(deciding) < 2:
        raise BundleError("on no training prompt does one model score above another: nothing to learn from")
    order = rng.permutation(deciding)
    cut = max(1, round(HELD_OUT * len(order)))
    fitted = _descend(task.embeddings.astype(np.float64), wins, order[cut:], order[:cut], rng)
    strong = int(np.argmax(task.mean_score))
    weak = next(int(j) for j in task.cheapest_first if j != strong)
    return MatrixFactorisation(
        task.models, *fitted.factors, strong=task.models[strong], weak=task.models[weak], passes=fitted.passes
    )


def restore(described: dict[str, Any], arrays: Arrays) -> MatrixFactorisation:
    """The head of what was stored."""
    return MatrixFactorisation(
        tuple(described["models"]),
        arrays["project"],
        arrays["offset"],
        arrays["vectors"],
        strong=described["strong"],
        weak=described["weak"],
        passes=described["passes"],
    )


@dataclass(frozen=True)
class _Fitted:
    factors: tuple[Floats, Floats, Floats]
    passes: int


def _descend(
    embeddings: Floats, wins: NDArray[np.bool_], rows: Ints, held: Ints, rng: np.random.Generator
) -> _Fitted:
    dim, n_models = embeddings.shape[1], wins.shape[1]
    factors = (
        rng.normal(0.0, dim**-0.5, (dim, RANK)),
        np.full(RANK, RANK**-0.5),
        rng.normal(0.0, RANK**-0.5, (n_models, RANK)),
    )
    moments = [(np.zeros_like(each), np.zeros_like(each)) for each in factors]
    best, best_loss, best_pass, step = factors, np.inf, 0, 0
    for number in range(1, PASSES + 1):
        for part in np.array_split(rng.permutation(rows), -(-len(rows) // BATCH)):
            step += 1
            slopes = _slopes(embeddings[part], wins[part], factors)
            project, offset, vectors = (
                _adam(value, slope, moment, step)
                for value, slope, moment in zip(factors, slopes, moments, strict=True)
            )
            factors = project, offset, vectors
        loss = _loss(embeddings[held], wins[held], factors)
        if loss < best_loss:
            best, best_loss, best_pass = factors, loss, number
        elif number - best_pass >= PATIENCE:
            break
    return _Fitted(best, best_pass)


def _delta_of(embeddings: Floats, factors: tuple[Floats, Floats, Floats]) -> tuple[Floats, Floats]:
    hidden = embeddings @ factors[0] + factors[1]
    return hidden, hidden @ factors[2].T


def _loss(embeddings: Floats, wins: NDArray[np.bool_], factors: tuple[Floats, Floats, Floats]) -> float:
    """Mean logistic loss over the pairs that somebody won."""
    _, delta = _delta_of(embeddings, factors)
    margin = delta[:, :, None] - delta[:, None, :]
    return float(np.logaddexp(0.0, -margin[wins]).mean())


def _slopes(
    embeddings: Floats, wins: NDArray[np.bool_], factors: tuple[Floats, Floats, Floats]
) -> tuple[Floats, Floats, Floats]:
    """Gradients of ``_loss`` with weight decay."""
    hidden, delta = _delta_of(embeddings, factors)
    margin = delta[:, :, None] - delta[:, None, :]
    pull = np.where(wins, -expit(-margin), 0.0) / max(1, int(wins.sum()))
    of_delta = pull.sum(axis=2) - pull.sum(axis=1)
    of_hidden = of_delta @ factors[2]
    return (
        embeddings.T @ of_hidden + DECAY * factors[0],
        of_hidden.sum(axis=0),
        of_delta.T @ hidden + DECAY * factors[2],
    )


def _adam(value: Floats, slope: Floats, moment: tuple[Floats, Floats], step: int) -> Floats:
    mean, square = moment
    mean *= _KEEP_MEAN
    mean += (1.0 - _KEEP_MEAN) * slope
    square *= _KEEP_SQUARE
    square += (1.0 - _KEEP_SQUARE) * slope**2
    unbiased = np.sqrt(square / (1.0 - _KEEP_SQUARE**step))
    return np.asarray(value - STEP * mean / (1.0 - _KEEP_MEAN**step) / (unbiased + _TINY))
