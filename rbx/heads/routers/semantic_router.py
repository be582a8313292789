"""Category routing as vLLM's Semantic Router does it, rebuilt: classify the prompt, look the model up.

The service (github.com/vllm-project/semantic-router, v0.4) classifies a prompt into one of a fixed set of
categories; a table names the model of each, and below a confidence threshold a default model answers. Its
14 academic categories and their fine-tuned ModernBERT are replaced by the data sets of the train split and a
logistic regression on the bundle's embedding, the hand-written table by the best mean score in training.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from rbx.heads.routers.head import Arrays, AskedPrompts
from rbx.heads.routers.labelled_means import by_source, labelled_means
from rbx.heads.routers.softmax_regression import fit_softmax
from rbx.heads.routers.task import RouterTask
from rbx.heads.routers.threshold import checked_threshold

Floats = NDArray[np.float64]

PENALTIES = (1.0, 10.0, 100.0)  # inverse strengths (scikit-learn's C) tried on held-out training prompts
THRESHOLD = 0.6  # the service's default for its category classifier
STEPS = 1000


@dataclass(frozen=True)
class SemanticRouter:
    """``weights`` (dim, K) and ``offset`` (K,) give logits of K categories; ``quality`` (K, M) their table.

    ``default`` is the model of the best mean score over all training prompts. ``held_out`` is the share of
    held-out training prompts that each penalty puts into the right category.
    """

    models: tuple[str, ...]
    categories: tuple[str, ...]
    weights: Floats
    offset: Floats
    quality: Floats
    default: str
    threshold: float = THRESHOLD
    held_out: tuple[tuple[float, float], ...] = ()

    @property
    def described(self) -> dict[str, Any]:
        """See ``RouterHead``; ``table`` names the model of each category."""
        best = self.quality.argmax(axis=1).tolist()
        return {
            "models": list(self.models),
            "categories": list(self.categories),
            "table": dict(zip(self.categories, (self.models[m] for m in best), strict=True)),
            "default": self.default,
            "held_out_accuracy": [[penalty, share] for penalty, share in self.held_out],
        }

    @property
    def arrays(self) -> Arrays:
        """See ``RouterHead``."""
        return {"weights": self.weights, "offset": self.offset, "quality": self.quality}

    def above(self, threshold: float) -> SemanticRouter:
        """The same classifier, sending prompts below another confidence to the default model."""
        return replace(self, threshold=checked_threshold(threshold))

    def probability(self, prompts: AskedPrompts) -> Floats:
        """Of each category, (P, K)."""
        logits = prompts.embeddings.astype(np.float64) @ self.weights + self.offset
        return np.asarray(softmax(logits, axis=1))

    def score(self, prompts: AskedPrompts) -> Floats:
        """1 for the model of the prompt's category, or the default, and 0 for others; see ``RouterHead``."""
        probability = self.probability(prompts)
        category = probability.argmax(axis=1)
        unsure = probability.max(axis=1) < self.threshold
        model = np.where(unsure, self.models.index(self.default), self.quality.argmax(axis=1)[category])
        return np.eye(len(self.models))[model]


def train(task: RouterTask, seed: int) -> SemanticRouter:
    """Choose the penalty on held-out prompts, then fit all of them."""
    categories, member = by_source(task.sources)
    category = member.argmax(axis=1)
    embeddings = task.embeddings.astype(np.float64)
    held_out: list[tuple[float, float]] = []
    if len(categories) > 1:
        for penalty in PENALTIES:
            right = []
            for kept, held in task.folds(np.random.default_rng([seed, 29])):
                weights, offset = fit_softmax(
                    embeddings[kept], category[kept], len(categories), penalty, STEPS
                )
                right.append((embeddings[held] @ weights + offset).argmax(axis=1) == category[held])
            held_out.append((penalty, float(np.concatenate(right).mean())))
    best = max(held_out, key=lambda tried: tried[1], default=(PENALTIES[0], 1.0))[0]
    weights, offset = fit_softmax(embeddings, category, len(categories), best, STEPS)
    return SemanticRouter(
        task.models,
        categories,
        weights,
        offset,
        labelled_means(member, task.score),
        default=task.models[int(task.mean_score.argmax())],
        held_out=tuple(held_out),
    )


def restore(described: dict[str, Any], arrays: Arrays) -> SemanticRouter:
    """The head of what was stored."""
    return SemanticRouter(
        tuple(described["models"]),
        tuple(described["categories"]),
        arrays["weights"],
        arrays["offset"],
        arrays["quality"],
        described["default"],
        held_out=tuple((penalty, share) for penalty, share in described["held_out_accuracy"]),
    )
