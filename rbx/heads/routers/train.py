"""Routers trained from a grid's train split into a bundle that is there already."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rbx.config.pool import Pool
from rbx.grid.schema import GridView
from rbx.heads.bundle import Bundle
from rbx.heads.embedding_cache import encode_cached
from rbx.heads.encoder import Embeddings
from rbx.heads.evaluation import Interval, bootstrap_mean
from rbx.heads.progress import Progress, silent
from rbx.heads.routers.asked import asked_prompts
from rbx.heads.routers.build import train_router
from rbx.heads.routers.head import RouterHead
from rbx.heads.routers.prices import model_prices_usd
from rbx.heads.routers.task import RouterTask
from rbx.heads.train import Task, reduce_to_pool


@dataclass(frozen=True)
class RoutedQuality:
    """What a router's first choice would have got on the test prompts that all models have labels for.

    ``shares`` are those of its choices, by model.
    """

    router: str
    quality: Interval | None
    shares: dict[str, float]
    trained_s: float


def train_routers(
    bundle: Bundle, view: GridView, pool: Pool, names: Sequence[str], seed: int, progress: Progress = silent
) -> tuple[Bundle, tuple[RoutedQuality, ...]]:
    """The bundle with these routers, trained anew where it had them, and how each does on unseen prompts.

    Raises ``BundleError`` where bundle, grid and pool do not belong together, or nothing can be learnt.
    """
    bundle.check_grid(view)
    bundle.check_pool(pool)
    reduced = reduce_to_pool(view, pool)
    embeddings = encode_cached(bundle.encoder, view.prompts, progress)
    task = router_task(reduced, embeddings, pool)
    unseen = asked_prompts(view, embeddings, reduced.test)
    trained: dict[str, RouterHead] = {}
    figures = []
    for done, name in enumerate(names):
        progress(f"train router {name}", done, len(names))
        start_s = time.perf_counter()
        trained[name] = train_router(name, task, seed)
        took_s = time.perf_counter() - start_s
        scores = trained[name].score(unseen)
        figures.append(_routed(name, task.models, scores, reduced.score[reduced.test], seed, took_s))
    progress("train routers", len(names), len(names))
    return dataclasses.replace(bundle, routers={**bundle.routers, **trained}), tuple(figures)


def router_task(reduced: Task, embeddings: Embeddings, pool: Pool) -> RouterTask:
    """What routers learn from: the training prompts of a grid whose prompts have ``embeddings`` (P, dim)."""
    view, train = reduced.view, reduced.train
    price_in_usd, price_out_usd = model_prices_usd(pool)
    return RouterTask(
        models=reduced.models,
        texts=tuple(view.prompts[row] for row in train),
        sources=tuple(view.sources[row] for row in train),
        embeddings=embeddings[train],
        score=reduced.score[train],
        input_tokens=view.input_tokens[train],
        output_tokens=reduced.length[train],
        price_in_usd=price_in_usd,
        price_out_usd=price_out_usd,
    )


def _routed(
    name: str,
    models: tuple[str, ...],
    scores: np.ndarray[tuple[int, int], np.dtype[np.float64]],
    labels: np.ndarray[tuple[int, int], np.dtype[np.float64]],
    seed: int,
    took_s: float,
) -> RoutedQuality:
    known = np.flatnonzero(~np.isnan(labels).any(axis=1))
    picked = scores.argmax(axis=1)
    quality = bootstrap_mean(labels[known, picked[known]], np.random.default_rng(seed))
    counts = np.bincount(picked, minlength=len(models)) / max(1, len(picked))
    return RoutedQuality(name, quality, dict(zip(models, counts.tolist(), strict=True)), took_s)
