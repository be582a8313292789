"""Linear router: one ridge regression a model from embedding to score; the highest prediction wins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rbx.heads.routers.head import Arrays, AskedPrompts
from rbx.heads.routers.task import RouterTask

Floats = NDArray[np.float64]

PENALTIES = tuple(10.0**power for power in range(-2, 4))


@dataclass(frozen=True)
class LinearRouter:
    """``weights`` (dim, M), ``offset`` (M,); ``penalties`` (M,) were chosen by leave-one-out errors."""

    models: tuple[str, ...]
    weights: Floats
    offset: Floats
    penalties: tuple[float, ...]

    @property
    def described(self) -> dict[str, Any]:
        """See ``RouterHead``."""
        return {"models": list(self.models), "penalties": list(self.penalties)}

    @property
    def arrays(self) -> Arrays:
        """See ``RouterHead``."""
        return {"weights": self.weights, "offset": self.offset}

    def score(self, prompts: AskedPrompts) -> Floats:
        """Predicted scores; see ``RouterHead``."""
        return np.asarray(prompts.embeddings.astype(np.float64) @ self.weights + self.offset)


def train(task: RouterTask, seed: int) -> LinearRouter:
    """Fit each model on the prompts that have its label; nothing is drawn, so ``seed`` has no say."""
    from sklearn.linear_model import RidgeCV

    fits = []
    for column in range(task.n_models):
        known = ~np.isnan(task.score[:, column])
        fit = RidgeCV(alphas=PENALTIES)
        # One label has none left out to choose the penalty by; it is then the prediction for everything.
        with np.errstate(invalid="ignore"):
            fits.append(fit.fit(task.embeddings[known].astype(np.float64), task.score[known, column]))
    return LinearRouter(
        task.models,
        np.stack([fit.coef_ for fit in fits], axis=1),
        np.array([fit.intercept_ for fit in fits]),
        tuple(float(fit.alpha_) for fit in fits),
    )


def restore(described: dict[str, Any], arrays: Arrays) -> LinearRouter:
    """The head of what was stored."""
    return LinearRouter(
        tuple(described["models"]), arrays["weights"], arrays["offset"], tuple(described["penalties"])
    )
