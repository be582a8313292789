"""Multilayer perceptron router: embedding → 256 → 128 → one score a model; the highest prediction wins.

The shape is that of RouteBalance's alternative head (arXiv 2606.17949's reference code); the frozen
embedding goes in, and a tenth of the training prompts tells when to stop.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rbx.heads.encoder import Embeddings
from rbx.heads.routers.head import Arrays, AskedPrompts
from rbx.heads.routers.task import RouterTask

Floats = NDArray[np.float64]

HIDDEN = (256, 128)
_LAYERS = len(HIDDEN) + 1


@dataclass(frozen=True)
class Network:
    """ReLU layers: ``weights[k]`` (in, out), ``offsets[k]`` (out,); the last layer is linear."""

    weights: tuple[Floats, ...]
    offsets: tuple[Floats, ...]

    def __call__(self, inputs: Floats) -> Floats:
        """Outputs (P, out) for ``inputs`` (P, in)."""
        values = inputs
        for layer, (weight, offset) in enumerate(zip(self.weights, self.offsets, strict=True)):
            values = values @ weight + offset
            if layer + 1 < len(self.weights):
                values = np.maximum(values, 0.0)
        return values


@dataclass(frozen=True)
class MlpRouter:
    """One network for all models, or, where labels are missing, one a model."""

    models: tuple[str, ...]
    networks: tuple[Network, ...]

    @property
    def described(self) -> dict[str, Any]:
        """See ``RouterHead``."""
        return {"models": list(self.models), "hidden": list(HIDDEN), "networks": len(self.networks)}

    @property
    def arrays(self) -> Arrays:
        """See ``RouterHead``."""
        found: Arrays = {}
        for which, network in enumerate(self.networks):
            for layer in range(_LAYERS):
                found[f"weights_{which}_{layer}"] = network.weights[layer]
                found[f"offsets_{which}_{layer}"] = network.offsets[layer]
        return found

    def score(self, prompts: AskedPrompts) -> Floats:
        """Predicted scores; see ``RouterHead``."""
        inputs = prompts.embeddings.astype(np.float64)
        return np.concatenate([network(inputs) for network in self.networks], axis=1)


def train(task: RouterTask, seed: int) -> MlpRouter:
    """Adam on squared errors with early stopping; a model's missing labels are left out, never filled in."""
    complete = not np.isnan(task.score).any()
    targets = [task.score] if complete else [task.score[:, [j]] for j in range(task.n_models)]
    return MlpRouter(task.models, tuple(_fit(task.embeddings, target, seed) for target in targets))


def restore(described: dict[str, Any], arrays: Arrays) -> MlpRouter:
    """The head of what was stored."""
    networks = tuple(
        Network(
            tuple(arrays[f"weights_{which}_{layer}"] for layer in range(_LAYERS)),
            tuple(arrays[f"offsets_{which}_{layer}"] for layer in range(_LAYERS)),
        )
        for which in range(described["networks"])
    )
    return MlpRouter(tuple(described["models"]), networks)


def _fit(embeddings: Embeddings, target: Floats, seed: int) -> Network:
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.neural_network import MLPRegressor

    known = ~np.isnan(target).any(axis=1)
    network = MLPRegressor(
        hidden_layer_sizes=HIDDEN,
        alpha=1e-5,
        batch_size=max(1, min(256, int(0.9 * known.sum()))),
        learning_rate_init=1e-3,
        max_iter=50,
        early_stopping=bool(known.sum() >= 20),
        validation_fraction=0.1,
        n_iter_no_change=8,
        random_state=seed,
    )
    outputs = target[known] if target.shape[1] > 1 else target[known, 0]
    with warnings.catch_warnings():
        # Fifty passes are the recipe, whether the loss still falls or not.
        warnings.simplefilter("ignore", ConvergenceWarning)
        network.fit(embeddings[known].astype(np.float64), outputs)
    return Network(tuple(network.coefs_), tuple(network.intercepts_))
