"""BEST-Route's classifier on a frozen encoder: multinomial logistic regression on the bundle's embeddings.

BEST-Route (arXiv 2506.22716; as RouteBalance refits it, arXiv 2606.17949) fine-tunes an encoder to name the
model with the best answer, which needs torch. This one learns the same labels from embeddings that stay as
they are: it needs no torch, and is weaker where the labels ask for words that the embedding does not hold.
Labels, threshold and fallback are those of ``best_route``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rbx.heads.routers.best_route.train import best_models
from rbx.heads.routers.head import Arrays, AskedPrompts
from rbx.heads.routers.softmax_regression import fit_softmax
from rbx.heads.routers.task import RouterTask
from rbx.heads.routers.threshold import checked_fallback, checked_threshold, or_fallback

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

# Inverse strength of the L2 penalty; the one of the lowest loss on held-out prompts is taken.
STRENGTHS = (0.1, 1.0, 10.0)
HELD_OUT = 0.1
STEPS = 300


@dataclass(frozen=True)
class BestRouteFrozen:
    """``weights`` (dim, M), ``offset`` (M,), −inf for models that are never best; ``cheapest`` answers below
    the threshold where no fallback is named; ``strength`` was chosen on held-out prompts."""

    models: tuple[str, ...]
    weights: Floats
    offset: Floats
    cheapest: str
    strength: float
    ties_to: str | None = None
    threshold: float = 0.0
    fallback: str | None = None

    @property
    def described(self) -> dict[str, Any]:
        """See ``RouterHead``."""
        return {
            "models": list(self.models),
            "cheapest": self.cheapest,
            "strength": self.strength,
            "ties_to": self.ties_to,
        }

    @property
    def arrays(self) -> Arrays:
        """See ``RouterHead``."""
        return {"weights": self.weights, "offset": self.offset}

    def sure_from(self, threshold: float, fallback: str | None) -> BestRouteFrozen:
        """The same classifier with a threshold on its largest probability, and who answers below it."""
        fallback = checked_fallback(fallback, self.models)
        return replace(self, threshold=checked_threshold(threshold), fallback=fallback)

    def probabilities(self, prompts: AskedPrompts) -> Floats:
        """P(model has the best answer), (P, M)."""
        logits = prompts.embeddings.astype(np.float64) @ self.weights + self.offset
        powers = np.exp(logits - logits.max(axis=1, keepdims=True))
        return np.asarray(powers / powers.sum(axis=1, keepdims=True))

    def score(self, prompts: AskedPrompts) -> Floats:
        """The probabilities, and 2 for the fallback where none reaches the threshold; see ``RouterHead``."""
        fallback = self.models.index(self.fallback or self.cheapest)
        return or_fallback(self.probabilities(prompts), self.threshold, fallback)


def train(task: RouterTask, seed: int) -> BestRouteFrozen:
    """Fit the best model of each prompt; raises ``BundleError`` as ``best_models`` does."""
    rows, best = best_models(task)
    embeddings = task.embeddings[rows].astype(np.float64)
    order = np.random.default_rng([seed, 37]).permutation(len(rows))
    cut = max(1, round(HELD_OUT * len(rows)))
    held, kept = order[:cut], order[cut:]
    # A model that is best on held-out prompts alone has no probability under any strength.
    held = held[np.isin(best[held], best[kept])]
    losses = [
        _loss(
            *fit_softmax(embeddings[kept], best[kept], task.n_models, strength, STEPS),
            embeddings[held],
            best[held],
        )
        for strength in STRENGTHS
    ]
    strength = STRENGTHS[int(np.argmin(losses))]
    weights, offset = fit_softmax(embeddings, best, task.n_models, strength, STEPS)
    cheapest = task.models[int(task.cheapest_first[0])]
    return BestRouteFrozen(task.models, weights, offset, cheapest, strength, task.ties_to)


def restore(described: dict[str, Any], arrays: Arrays) -> BestRouteFrozen:
    """The head of what was stored."""
    return BestRouteFrozen(
        tuple(described["models"]),
        arrays["weights"],
        arrays["offset"],
        described["cheapest"],
        described["strength"],
        described["ties_to"],
    )


def _loss(weights: Floats, offset: Floats, embeddings: Floats, best: Ints) -> float:
    """Cross-entropy, summed over prompts."""
    logits = embeddings @ weights + offset
    logits -= logits.max(axis=1, keepdims=True)
    chosen = logits[np.arange(len(best)), best] - np.log(np.exp(logits).sum(axis=1))
    return float(-chosen.sum())
