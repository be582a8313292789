"""Routers trained from a grid's train split into a bundle that is there already."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rbx.config.pool import Pool
from rbx.grid.answers import Answers
from rbx.grid.schema import GridView
from rbx.heads.bundle import Bundle
from rbx.heads.embedding_cache import encode_cached
from rbx.heads.encoder import Embeddings
from rbx.heads.evaluation import Interval, bootstrap_mean
from rbx.heads.progress import Progress, silent
from rbx.heads.routers.asked import asked_prompts
from rbx.heads.routers.build import train_router
from rbx.heads.routers.cascade.router import Cascade
from rbx.heads.routers.head import AskedPrompts, RouterHead
from rbx.heads.routers.prices import model_prices_usd
from rbx.heads.routers.task import Ints, RouterTask
from rbx.heads.train import Task, reduce_to_pool


@dataclass(frozen=True)
class RoutedQuality:
    """What a router's first choice would have got on the test prompts that all models have labels for.

    Of a cascade it is the model whose answer ended it. ``shares`` are those of its choices, by model.
    """

    router: str
    quality: Interval | None
    shares: dict[str, float]
    trained_s: float


def train_routers(
    bundle: Bundle,
    view: GridView,
    pool: Pool,
    names: Sequence[str],
    seed: int,
    progress: Progress = silent,
    *,
    encoder_path: str | None = None,
    ties_to: str | None = None,
    answers: Answers | None = None,
) -> tuple[Bundle, tuple[RoutedQuality, ...]]:
    """The bundle with these routers, trained anew where it had them, and how each does on unseen prompts.

    ``encoder_path`` is what BEST-Route starts from (``starting_point``), ``ties_to`` the model that its
    labels name where several answer best; ``answers``, those of all prompts by the pool's models, are for
    routers that read them. Raises ``BundleError`` where bundle, grid and pool do not belong together, or
    nothing can be learnt.
    """
    bundle.check_grid(view)
    bundle.check_pool(pool)
    reduced = reduce_to_pool(view, pool)
    embeddings = encode_cached(bundle.encoder, view.prompts, progress)
    task = dataclasses.replace(
        router_task(reduced, embeddings, pool),
        encoder_path=encoder_path,
        ties_to=ties_to,
        answers=None if answers is None else _some(answers, reduced.train),
    )
    unseen = asked_prompts(view, embeddings, reduced.test)
    trained: dict[str, RouterHead] = {}
    figures = []
    for done, name in enumerate(names):
        progress(f"train router {name}", done, len(names))
        start_s = time.perf_counter()
        trained[name] = train_router(name, task, seed)
        took_s = time.perf_counter() - start_s
        told = None if answers is None else _some(answers, reduced.test)
        picked = _picked(trained[name], unseen, told)
        figures.append(_routed(name, task.models, picked, reduced.score[reduced.test], seed, took_s))
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


def _some(answers: Answers, rows: Ints) -> Answers:
    return tuple(answers[row] for row in rows.tolist())


def _picked(head: RouterHead, unseen: AskedPrompts, answers: Answers | None) -> Ints:
    if isinstance(head, Cascade) and answers is not None:
        return head.planned.last_asked(head.answer_scores(unseen.texts, answers))
    return np.asarray(head.score(unseen).argmax(axis=1), dtype=np.int64)


def _routed(
    name: str,
    models: tuple[str, ...],
    picked: Ints,
    labels: np.ndarray[tuple[int, int], np.dtype[np.float64]],
    seed: int,
    took_s: float,
) -> RoutedQuality:
    known = np.flatnonzero(~np.isnan(labels).any(axis=1))
    quality = bootstrap_mean(labels[known, picked[known]], np.random.default_rng(seed))
    counts = np.bincount(picked, minlength=len(models)) / max(1, len(picked))
    return RoutedQuality(name, quality, dict(zip(models, counts.tolist(), strict=True)), took_s)
