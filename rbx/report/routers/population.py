"""The prompts that routers are judged on, and what each model's answer to them was worth and cost."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from rbx.config.pool import Pool
from rbx.errors import DatasetError
from rbx.grid.answers import Answers
from rbx.grid.schema import GridView
from rbx.heads.bundle import Bundle
from rbx.heads.embedding_cache import encode_cached
from rbx.heads.encoder import Embeddings
from rbx.heads.progress import Progress, silent
from rbx.heads.routers.asked import asked_prompts
from rbx.heads.routers.head import AskedPrompts
from rbx.heads.routers.prices import model_prices_usd
from rbx.heads.routers.task import RouterTask
from rbx.heads.routers.train import router_task
from rbx.heads.train import Task, reduce_to_pool

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Population:
    """The n test prompts with a label for every one of M models, in the order of their ids.

    ``score``, ``output_tokens`` and ``cost_usd`` (n, M): no score is missing; length and cost of all models
    are NaN where that of one answer to the prompt is unknown, so that costs of all routers are means over
    the same prompts. ``answers`` n × M are their texts, where a router reads them. ``n_test`` counts the test
    prompts with or without labels.
    """

    prompt_ids: tuple[str, ...]
    asked: AskedPrompts
    models: tuple[str, ...]
    score: Floats
    input_tokens: Ints
    output_tokens: Floats
    cost_usd: Floats
    n_test: int
    answers: Answers | None = None

    @property
    def n(self) -> int:
        """Number of prompts."""
        return len(self.prompt_ids)

    @property
    def coverage(self) -> float:
        """Share of the test prompts that have a label for every model."""
        return self.n / self.n_test

    @property
    def n_priced(self) -> int:
        """Prompts whose answers all have a known length."""
        return int((~np.isnan(self.cost_usd[:, 0])).sum())

    @property
    def is_graded(self) -> bool:
        """Whether some score is neither 0 nor 1."""
        return not bool(np.isin(self.score, (0.0, 1.0)).all())

    @cached_property
    def sources(self) -> tuple[str, ...]:
        """Where the prompts are from, each name once, sorted."""
        return tuple(sorted(set(self.prompt_sources.tolist())))

    @cached_property
    def prompt_sources(self) -> NDArray[np.str_]:
        """Source of each prompt, (n,)."""
        assert self.asked.sources is not None
        return np.array(self.asked.sources, dtype=np.str_)

    @cached_property
    def is_best(self) -> Bools:
        """Whether a model's label is the highest of its prompt, (n, M)."""
        return np.asarray(self.score == self.score.max(axis=1, keepdims=True))

    @cached_property
    def is_informative(self) -> Bools:
        """Prompts on which models differ, so that the choice matters, (n,)."""
        return np.asarray(~self.is_best.all(axis=1))


@dataclass(frozen=True)
class Material:
    """A bundle with the grid and pool it belongs to; ``task`` is what its routers learnt from."""

    bundle: Bundle
    pool: Pool
    view: GridView
    task: RouterTask
    population: Population


def gather(
    bundle: Bundle,
    view: GridView,
    pool: Pool,
    progress: Progress = silent,
    *,
    answers: Answers | None = None,
) -> Material:
    """Embed the grid's prompts (from the cache where they were before) and take its test prompts.

    ``answers`` P × M are the texts of the grid's answers by the pool's models, for routers that read them.
    Raises ``BundleError`` where bundle, grid and pool do not belong together, ``DatasetError`` where no
    test prompt has a label for every model.
    """
    bundle.check_grid(view)
    bundle.check_pool(pool)
    reduced = reduce_to_pool(view, pool)
    embeddings = encode_cached(bundle.encoder, view.prompts, progress)
    told = answers if answers is not None and any(any(row) for row in answers) else None
    return Material(
        bundle,
        pool,
        view,
        router_task(reduced, embeddings, pool),
        _population(reduced, embeddings, pool, told),
    )


def _population(reduced: Task, embeddings: Embeddings, pool: Pool, answers: Answers | None) -> Population:
    view = reduced.view
    labelled = reduced.test[~np.isnan(reduced.score[reduced.test]).any(axis=1)]
    if not len(labelled):
        raise DatasetError(
            f"grid {view.name}: none of its {len(reduced.test):,} test prompts has a score of {view.metric} "
            f"for every model of pool {pool.name}; `rbx dataset check` tells which labels are missing"
        )
    # Sorted by id: neither an estimate nor its interval depends on the order of the file.
    rows = np.array(sorted(labelled.tolist(), key=lambda row: view.prompt_ids[row]), dtype=np.int64)
    input_tokens, output_tokens = view.input_tokens[rows], reduced.length[rows]
    output_tokens[np.isnan(output_tokens).any(axis=1)] = np.nan
    return Population(
        prompt_ids=tuple(view.prompt_ids[row] for row in rows.tolist()),
        asked=asked_prompts(view, embeddings, rows),
        models=reduced.models,
        score=reduced.score[rows],
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        cost_usd=answer_costs(input_tokens, output_tokens, pool),
        n_test=len(reduced.test),
        answers=None if answers is None else tuple(answers[row] for row in rows.tolist()),
    )


def answer_costs(input_tokens: Ints, output_tokens: Floats, pool: Pool) -> Floats:
    """USD of prompts (n,) with answers of these lengths (n, M) at the pool's prices, (n, M)."""
    price_in_usd, price_out_usd = model_prices_usd(pool)
    return np.asarray(input_tokens[:, None] * price_in_usd + output_tokens * price_out_usd)
