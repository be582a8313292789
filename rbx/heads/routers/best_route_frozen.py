"""BEST-Route's classifier on a frozen encoder: multinomial logistic regression on the bundle's embeddings.

BEST-Route (arXiv 2506.22716; as RouteBalance refits it, arXiv 2606.17949) fine-tunes an encoder to name the
model with the best answer, which needs torch. This one learns the same labels from embeddings that stay as
they are: it needs no torch, and is weaker where the labels ask for words that the embedding does not hold.
Threshold and fallback are those of ``best_route.router``. A prompt that several models answer best counts for
each of them in equal parts.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rbx.errors import BundleError
from rbx.heads.routers.head import Arrays, AskedPrompts
from rbx.heads.routers.task import RouterTask

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

# Inverse strength of the L2 penalty; the one of the lowest loss on held-out prompts is taken.
STRENGTHS = (0.1, 1.0, 10.0)
HELD_OUT = 0.1


@dataclass(frozen=True)
class BestRouteFrozen:
    """``weights`` (dim, M), ``offset`` (M,), −inf for models that are never best; ``cheapest`` answers below
    the threshold where no fallback is named; ``strength`` was chosen on held-out prompts."""

    models: tuple[str, ...]
    weights: Floats
    offset: Floats
    cheapest: str
    strength: float
    threshold: float = 0.0
    fallback: str | None = None

    @property
    def described(self) -> dict[str, Any]:
        """See ``RouterHead``."""
        return {"models": list(self.models), "cheapest": self.cheapest, "strength": self.strength}

    @property
    def arrays(self) -> Arrays:
        """See ``RouterHead``."""
        return {"weights": self.weights, "offset": self.offset}

    def sure_from(self, threshold: float, fallback: str | None) -> BestRouteFrozen:
        """The same classifier with a threshold on its largest probability, and who answers below it."""
        if not 0.0 <= threshold <= 1.0:
            raise BundleError(f"threshold is {threshold}; it is a probability")
        if fallback is not None and fallback not in self.models:
            raise BundleError(f"fallback {fallback!r} is none of {', '.join(self.models)}")
        return replace(self, threshold=threshold, fallback=fallback)

    def probabilities(self, prompts: AskedPrompts) -> Floats:
        """P(model has the best answer), (P, M)."""
        logits = prompts.embeddings.astype(np.float64) @ self.weights + self.offset
        powers = np.exp(logits - logits.max(axis=1, keepdims=True))
        return np.asarray(powers / powers.sum(axis=1, keepdims=True))

    def score(self, prompts: AskedPrompts) -> Floats:
        """The probabilities, and 2 for the fallback where none reaches the threshold; see ``RouterHead``."""
        scores = self.probabilities(prompts)
        unsure = scores.max(axis=1, initial=0.0) < self.threshold
        scores[unsure, self.models.index(self.fallback or self.cheapest)] = 2.0
        return scores


class _Labels(NamedTuple):
    """One row for each prompt and model that answers it best: the prompt, the model, 1 ÷ how many do."""

    prompt: Ints
    model: Ints
    weight: Floats

    def of(self, prompts: Ints) -> _Labels:
        """Those of some prompts."""
        chosen = np.isin(self.prompt, prompts)
        return _Labels(self.prompt[chosen], self.model[chosen], self.weight[chosen])


def train(task: RouterTask, seed: int) -> BestRouteFrozen:
    """Fit which models answer best, from prompts with every label: of others nobody knows who is best.

    Raises ``BundleError`` where fewer than two have them.
    """
    scored = np.flatnonzero(~np.isnan(task.score).any(axis=1))
    if len(scored) < 2:
        raise BundleError(
            "fewer than two training prompts have a label of every model: nothing tells which answers best"
        )
    labels = _labels(task, scored)
    embeddings = task.embeddings.astype(np.float64)
    order = np.random.default_rng([seed, 37]).permutation(scored)
    cut = max(1, round(HELD_OUT * len(scored)))
    held, kept = labels.of(order[:cut]), labels.of(order[cut:])
    losses = [_loss(*_fit(embeddings, kept, c, task.n_models), embeddings, held) for c in STRENGTHS]
    strength = STRENGTHS[int(np.argmin(losses))]
    weights, offset = _fit(embeddings, labels, strength, task.n_models)
    return BestRouteFrozen(task.models, weights, offset, task.models[int(task.cheapest_first[0])], strength)


def restore(described: dict[str, Any], arrays: Arrays) -> BestRouteFrozen:
    """The head of what was stored."""
    return BestRouteFrozen(
        tuple(described["models"]),
        arrays["weights"],
        arrays["offset"],
        described["cheapest"],
        described["strength"],
    )


def _labels(task: RouterTask, scored: Ints) -> _Labels:
    is_best = task.score[scored] == task.score[scored].max(axis=1, keepdims=True)
    row, model = np.nonzero(is_best)
    return _Labels(scored[row], model.astype(np.int64), 1.0 / is_best.sum(axis=1)[row])


def _fit(embeddings: Floats, labels: _Labels, strength: float, n_models: int) -> tuple[Floats, Floats]:
    """Weights (dim, M) and offsets (M,) of the softmax; a model that is never best has probability 0."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    weights, offset = np.zeros((embeddings.shape[1], n_models)), np.full(n_models, -np.inf)
    classes = np.unique(labels.model)
    if len(classes) == 1:
        offset[classes] = 0.0
        return weights, offset
    fit = LogisticRegression(C=strength, max_iter=300)
    with warnings.catch_warnings():
        # What three hundred steps leave undone is far below what held-out prompts can tell.
        warnings.simplefilter("ignore", ConvergenceWarning)
        fit.fit(embeddings[labels.prompt], labels.model, sample_weight=labels.weight)
    if len(classes) == 2:
        # Of two classes scikit-learn keeps the logit of the second alone.
        weights[:, classes[1]], offset[classes] = fit.coef_[0], (0.0, float(fit.intercept_[0]))
        return weights, offset
    weights[:, classes], offset[classes] = fit.coef_.T, fit.intercept_
    return weights, offset


def _loss(weights: Floats, offset: Floats, embeddings: Floats, labels: _Labels) -> float:
    """Mean cross-entropy; infinite where a model was best that never was in training."""
    logits = embeddings[labels.prompt] @ weights + offset
    logits -= logits.max(axis=1, keepdims=True)
    chosen = logits[np.arange(len(labels.model)), labels.model] - np.log(np.exp(logits).sum(axis=1))
    return float(-np.average(chosen, weights=labels.weight))
