"""Avengers-Pro: models are ranked within clusters of prompts, and a prompt asks the nearest clusters.

After the published description and code (arXiv 2508.12631): k-means over unit embeddings; in a cluster a
model's balance is p_w·(its mean score, scaled to [0, 1] over the models) + (1 − p_w)·(1 − its mean cost ÷
the largest); a prompt's score of a model is Σ softmax(−β·distance)·1/(1 + rank) over its ``top_k`` nearest
clusters, with distance 1 − centre·embedding. The number of clusters is not published for RouteBalance's
models: it is chosen on held-out training prompts and recorded.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from rbx.errors import BundleError
from rbx.heads.routers.head import Arrays, AskedPrompts
from rbx.heads.routers.labelled_means import labelled_means
from rbx.heads.routers.task import RouterTask

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

CLUSTERS = (8, 16, 25, 32, 60)  # 25, 32 and 60 stand in the published code and configurations
PERFORMANCE_WEIGHTS = (0.25, 0.39, 0.53, 0.70, 0.80)  # RouteBalance's grid
TOP_K, BETA = 3, 5.0  # RouteBalance's wrapper
STARTS = 10  # of k-means; one while the number of clusters is chosen


@dataclass(frozen=True)
class AvengersPro:
    """K clusters, M models: ``centres`` (K, dim); ``quality`` and answer lengths, means by model (K, M).

    A cluster without a label of a model holds that model's mean over all training prompts. Prices (M,) are
    per token; they may change without training again.
    """

    models: tuple[str, ...]
    centres: Floats
    quality: Floats
    input_tokens: Floats
    output_tokens: Floats
    price_in_usd: Floats
    price_out_usd: Floats
    performance_weight: float = 0.8
    top_k: int = TOP_K
    beta: float = BETA
    held_out: tuple[tuple[int, float], ...] = ()

    @property
    def described(self) -> dict[str, Any]:
        """See ``RouterHead``; ``held_out`` is the utility of each number of clusters that was tried."""
        return {
            "models": list(self.models),
            "clusters": len(self.centres),
            "performance_weight": self.performance_weight,
            "top_k": self.top_k,
            "beta": self.beta,
            "held_out_utility": {str(k): value for k, value in self.held_out},
        }

    @property
    def arrays(self) -> Arrays:
        """See ``RouterHead``."""
        names = ("centres", "quality", "input_tokens", "output_tokens", "price_in_usd", "price_out_usd")
        return {name: getattr(self, name) for name in names}

    @property
    def cost_usd(self) -> Floats:
        """Mean cost of each model's answer in each cluster, (K, M)."""
        tokens_in = self.input_tokens[:, None] * self.price_in_usd
        return np.asarray(tokens_in + self.output_tokens * self.price_out_usd)

    def priced(self, price_in_usd: Floats, price_out_usd: Floats) -> AvengersPro:
        """The same clusters at other prices per token, (M,) each."""
        return replace(self, price_in_usd=price_in_usd, price_out_usd=price_out_usd)

    def weighing(self, performance_weight: float) -> AvengersPro:
        """The same clusters at another p_w in [0, 1]."""
        if not 0.0 <= performance_weight <= 1.0:
            raise BundleError(f"performance_weight is {performance_weight}; it lies in [0, 1]")
        return replace(self, performance_weight=performance_weight)

    @property
    def rank(self) -> Ints:
        """Of each model in each cluster, (K, M): 0 is the best; ties go to the cheaper model."""
        low = self.quality.min(axis=1, keepdims=True)
        spread = self.quality.max(axis=1, keepdims=True) - low
        scaled = np.where(spread > 0, (self.quality - low) / np.where(spread > 0, spread, 1.0), 1.0)
        balance = self.performance_weight * scaled + (1.0 - self.performance_weight) * _thrift(self.cost_usd)
        order = np.lexsort((self.cost_usd, -balance), axis=1)
        rank = np.empty_like(order)
        np.put_along_axis(rank, order, np.arange(order.shape[1])[None, :], axis=1)
        return rank.astype(np.int64)

    def score(self, prompts: AskedPrompts) -> Floats:
        """See ``RouterHead``."""
        distance = 1.0 - prompts.embeddings.astype(np.float64) @ self.centres.T
        nearest = np.argsort(distance, axis=1, kind="stable")[:, : self.top_k]
        weight = softmax(-self.beta * np.take_along_axis(distance, nearest, axis=1), axis=1)
        return np.asarray(np.einsum("pk,pkm->pm", weight, 1.0 / (1.0 + self.rank[nearest])))


def train(task: RouterTask, seed: int) -> AvengersPro:
    """Choose the number of clusters on held-out prompts, then cluster all of them.

    A fold that tells nothing is passed over: one in which no prompt has everything of every model, or whose
    rest has nothing of some model.
    """
    sizes = [k for k in CLUSTERS if k <= len(task.texts) // 2] or [1]
    known = ~(np.isnan(task.score) | np.isnan(task.cost_usd))
    held_out = []
    for clusters in sizes:
        rng = np.random.default_rng([seed, clusters])
        gains = [
            _utility(_fit(task, kept, clusters, seed, starts=1), task, held)
            for kept, fold in task.folds(rng)
            if known[kept].any(axis=0).all() and len(held := fold[known[fold].all(axis=1)])
        ]
        held_out.append((clusters, float(np.mean(gains)) if gains else 0.0))
    best = max(held_out, key=lambda tried: tried[1])[0]
    everything = np.arange(len(task.texts))
    return replace(_fit(task, everything, best, seed, starts=STARTS), held_out=tuple(held_out))


def restore(described: dict[str, Any], arrays: Arrays) -> AvengersPro:
    """The head of what was stored."""
    return AvengersPro(
        models=tuple(described["models"]),
        centres=arrays["centres"],
        quality=arrays["quality"],
        input_tokens=arrays["input_tokens"],
        output_tokens=arrays["output_tokens"],
        price_in_usd=arrays["price_in_usd"],
        price_out_usd=arrays["price_out_usd"],
        performance_weight=described["performance_weight"],
        top_k=described["top_k"],
        beta=described["beta"],
        held_out=tuple((int(k), value) for k, value in described["held_out_utility"].items()),
    )


def _fit(task: RouterTask, rows: Ints, clusters: int, seed: int, starts: int) -> AvengersPro:
    from sklearn.cluster import KMeans

    means = KMeans(clusters, n_init=starts, random_state=seed).fit(task.embeddings[rows].astype(np.float64))
    member = np.eye(clusters)[means.labels_]
    return AvengersPro(
        models=task.models,
        centres=np.asarray(means.cluster_centers_, dtype=np.float64),
        quality=labelled_means(member, task.score[rows]),
        input_tokens=labelled_means(member, task.input_tokens[rows, None].astype(np.float64))[:, 0],
        output_tokens=labelled_means(member, task.output_tokens[rows]),
        price_in_usd=task.price_in_usd,
        price_out_usd=task.price_out_usd,
    )


def _thrift(cost_usd: Floats) -> Floats:
    """1 − cost ÷ the largest of its row; 1 where every model is free."""
    largest = cost_usd.max(axis=1, keepdims=True)
    return np.asarray(1.0 - cost_usd / np.where(largest > 0, largest, 1.0))


def _utility(head: AvengersPro, task: RouterTask, held: Ints) -> float:
    """Mean over the published p_w of p_w·quality + (1 − p_w)·(1 − cost ÷ the dearest model's).

    ``held`` are rows of which all is known.
    """
    score, thrift = task.score[held], _thrift(task.cost_usd[held])
    prompts = AskedPrompts([task.texts[row] for row in held.tolist()], task.embeddings[held])
    rows = np.arange(len(held))
    gained = []
    for weight in PERFORMANCE_WEIGHTS:
        pick = head.weighing(weight).score(prompts).argmax(axis=1)
        gained.append(np.mean(weight * score[rows, pick] + (1.0 - weight) * thrift[rows, pick]))
    return float(np.mean(gained))
