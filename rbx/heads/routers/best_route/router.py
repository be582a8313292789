"""BEST-Route over M models: the classifier's best guess, or a fallback where it is not sure enough.

After BEST-Route (arXiv 2506.22716) as RouteBalance refits it (arXiv 2606.17949): an encoder fine-tuned to
name the model with the best answer; the largest probability decides where it reaches a threshold t, and with
t = 0 always. Below it the authors' code fell back on the first model of a file, a 14B; it is a setting here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rbx.heads.routers.best_route.architecture import Architecture
from rbx.heads.routers.best_route.classifier import Classifier
from rbx.heads.routers.head import Arrays, AskedPrompts
from rbx.heads.routers.threshold import checked_fallback, checked_threshold, or_fallback

Floats = NDArray[np.float64]

_ENCODER = "encoder."  # begins the name of an encoder's tensor among the arrays


@dataclass(frozen=True)
class BestRoute:
    """``cheapest`` is the fallback where none is named; ``training`` tells how it was fine-tuned."""

    models: tuple[str, ...]
    classifier: Classifier
    cheapest: str
    training: dict[str, Any]
    threshold: float = 0.0
    fallback: str | None = None

    @property
    def described(self) -> dict[str, Any]:
        """See ``RouterHead``."""
        return {
            "models": list(self.models),
            "cheapest": self.cheapest,
            "architecture": self.classifier.architecture.as_json(),
            "training": self.training,
        }

    @property
    def arrays(self) -> Arrays:
        """See ``RouterHead``."""
        classifier = self.classifier
        return {
            **{f"{_ENCODER}{name}": values for name, values in sorted(classifier.tensors.items())},
            "weights": classifier.weights,
            "offset": classifier.offset,
            "tokenizer": np.frombuffer(classifier.tokenizer.encode("utf-8"), dtype=np.uint8),
        }

    def sure_from(self, threshold: float, fallback: str | None) -> BestRoute:
        """The same classifier with a threshold on its largest probability, and who answers below it."""
        fallback = checked_fallback(fallback, self.models)
        return replace(self, threshold=checked_threshold(threshold), fallback=fallback)

    def score(self, prompts: AskedPrompts) -> Floats:
        """The probabilities, and 2 for the fallback where none reaches the threshold; see ``RouterHead``."""
        fallback = self.models.index(self.fallback or self.cheapest)
        return or_fallback(self.classifier.probabilities(prompts.texts), self.threshold, fallback)


def restore(described: dict[str, Any], arrays: Arrays) -> BestRoute:
    """The head of what was stored."""
    classifier = Classifier(
        architecture=Architecture(**described["architecture"]),
        tensors={
            name.removeprefix(_ENCODER): values
            for name, values in arrays.items()
            if name.startswith(_ENCODER)
        },
        weights=arrays["weights"],
        offset=arrays["offset"],
        tokenizer=arrays["tokenizer"].tobytes().decode("utf-8"),
    )
    return BestRoute(
        models=tuple(described["models"]),
        classifier=classifier,
        cheapest=described["cheapest"],
        training=described["training"],
    )
