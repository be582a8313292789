"""Train a bundle: encode, index, sweep rates, fit, measure."""

from __future__ import annotations

import time
from dataclasses import dataclass
from importlib import metadata

import numpy as np
from numpy.typing import NDArray

from rbx.config.pool import Pool
from rbx.errors import BundleError, DatasetError
from rbx.grid.schema import GridView
from rbx.heads.advice import advise
from rbx.heads.bea.lengths import whole_tokens
from rbx.heads.bundle import Bundle
from rbx.heads.bundle_meta import BundleMeta, ModelStatistics, tier_identity
from rbx.heads.embedding_cache import encode_cached
from rbx.heads.encoder import Embeddings, Encoder, load_encoder
from rbx.heads.encoder_comparison import report_encoders
from rbx.heads.evaluation import report_models, report_routing
from rbx.heads.knn import KnnHead, Labels
from rbx.heads.predictions import Predictions
from rbx.heads.progress import Progress, silent
from rbx.heads.rate_sweep import LengthPool, TierObservations, sweep_tier
from rbx.heads.remaining import (
    RESERVE_QUANTILE,
    RemainingReport,
    fit_survival,
    report_remaining,
    reserves,
)
from rbx.heads.report import TrainingReport
from rbx.heads.tpot_fit import FittedTpot, fit_tpot

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

COMPARED = ("minilm", "static")


@dataclass(frozen=True)
class TrainOptions:
    """Choices of one training run; ``compare`` also measures the other encoders on the same split."""

    encoder: str = "minilm"
    k: int = 10
    compare: bool = True
    seed: int = 0


@dataclass(frozen=True)
class Trained:
    """A bundle, its report, and what can't stand in either: times of this machine.

    ``encode_alone_ms`` is the median time of one text by itself, by encoder.
    """

    bundle: Bundle
    report: TrainingReport
    encode_alone_ms: dict[str, float]


@dataclass(frozen=True)
class Task:
    """The grid reduced to the pool's models, in the pool's order; ``train`` and ``test`` are rows."""

    view: GridView
    models: tuple[str, ...]
    score: Floats
    length: Floats
    train: Ints
    test: Ints


def train_bundle(view: GridView, pool: Pool, options: TrainOptions, progress: Progress = silent) -> Trained:
    """Train every head of ``pool`` on the train split of ``view`` and measure it on the test split.

    Raises ``DatasetError`` where the grid lacks a model of the pool or a split, ``BundleError`` where a
    head can't be fitted, and what ``load_encoder`` raises.
    """
    task = reduce_to_pool(view, pool)
    encoders, notes = _load_encoders(options, progress)
    embedded = {name: encode_cached(encoder, view.prompts, progress) for name, encoder in encoders.items()}
    heads = {name: fit_knn(task, vectors[task.train], options.k) for name, vectors in embedded.items()}
    predictions = {name: head.predict(embedded[name][task.test]) for name, head in heads.items()}
    knn = heads[options.encoder]
    left_out = knn.predict_left_out(np.arange(len(task.train))).length_tokens
    fitted = _fit_tpot(task, pool, left_out, options.seed, progress)
    survival = fit_survival(task.models, task.view.input_tokens[task.train], task.length[task.train])
    reserve = reserves(left_out, task.length[task.train])
    remaining = report_remaining(
        predictions[options.encoder],
        task.length[task.test],
        task.view.input_tokens[task.test],
        survival,
        reserve,
    )
    if knn.k < options.k:
        notes.append(f"k = {options.k} was cut to the {knn.k} training prompts")
    report = _report(task, knn, predictions, fitted, remaining, options, tuple(notes))
    bundle = Bundle(
        meta=_meta(task, pool, encoders[options.encoder], knn, reserve, options),
        knn=knn,
        survival=survival,
        tpot=fitted.heads,
        prior=fitted.prior,
        boosters=fitted.boosters,
        report=report.as_json(),
    )
    alone_ms = {name: _encode_alone_ms(encoder, task) for name, encoder in encoders.items()}
    return Trained(bundle, report, alone_ms)


def _load_encoders(options: TrainOptions, progress: Progress) -> tuple[dict[str, Encoder], list[str]]:
    """The chosen encoder first, then those to compare that are available; the others leave a note."""
    encoders, notes = {options.encoder: load_encoder(options.encoder, progress)}, []
    for name in COMPARED if options.compare else ():
        if name in encoders:
            continue
        try:
            encoders[name] = load_encoder(name, progress)
        except BundleError as error:
            notes.append(f"encoder {name} is left out of the comparison: {error}")
    return encoders, notes


def reduce_to_pool(view: GridView, pool: Pool) -> Task:
    """Keep the pool's models; raises ``DatasetError`` naming what the grid lacks."""
    missing = [model for model in pool.models if model not in view.models]
    if missing:
        raise DatasetError(
            f"grid {view.name} has no labels for {', '.join(missing)} of pool {pool.name}; "
            f"it has {', '.join(view.models)}"
        )
    train, test = view.rows("train"), view.rows("test")
    for split, rows in (("train", train), ("test", test)):
        if len(rows) == 0:
            raise DatasetError(f"grid {view.name} has no {split} prompts; rebuild it with both splits")
    columns = [view.models.index(model) for model in pool.models]
    scored = np.isfinite(view.score[train][:, columns]).sum(axis=0)
    unscored = [model for model, n in zip(pool.models, scored.tolist(), strict=True) if n == 0]
    if unscored:
        raise DatasetError(
            f"grid {view.name}: no training prompt has a score of {view.metric} for {', '.join(unscored)}; "
            "`rbx dataset check` tells why, --metric takes another of the grid's metrics"
        )
    return Task(view, pool.models, view.score[:, columns], view.output_tokens[:, columns], train, test)


def fit_knn(task: Task, embeddings: Embeddings, k: int) -> KnnHead:
    """Index the training prompts; ``embeddings`` are theirs."""
    return KnnHead(embeddings, Labels(task.models, task.score[task.train], task.length[task.train]), k)


def _fit_tpot(task: Task, pool: Pool, predicted: Floats, seed: int, progress: Progress) -> FittedTpot:
    observed: list[TierObservations] = []
    for tier in pool.tiers:
        column = task.models.index(tier.model)
        lengths = task.length[task.train, column]
        known = np.flatnonzero(~np.isnan(lengths))
        pool_of_lengths = LengthPool(
            task.view.input_tokens[task.train][known],
            lengths[known].astype(np.int64),
            whole_tokens(predicted[known, column]),
        )
        observed.append(sweep_tier(tier, pool_of_lengths, seed, progress))
    progress("fit TPOT heads", 0, 1)
    fitted = fit_tpot(pool.tiers, tuple(observed))
    progress("fit TPOT heads", 1, 1)
    return fitted


def _report(
    task: Task,
    knn: KnnHead,
    predictions: dict[str, Predictions],
    fitted: FittedTpot,
    remaining: tuple[RemainingReport, ...],
    options: TrainOptions,
    notes: tuple[str, ...],
) -> TrainingReport:
    score, length = task.score[task.test], task.length[task.test]
    train_mean = np.nanmean(task.score[task.train], axis=0)
    models = report_models(predictions[options.encoder], score, length)
    rng = np.random.default_rng(options.seed)
    routing = report_routing(predictions[options.encoder], score, train_mean, rng)
    return TrainingReport(
        grid=task.view.name,
        synthetic=task.view.synthetic,
        metric=task.view.metric,
        encoder=options.encoder,
        k=knn.k,
        n_train=len(task.train),
        n_test=len(task.test),
        mean_input_tokens=float(task.view.input_tokens[task.train].mean()),
        label_coverage=float(np.mean(~np.isnan(task.score))),
        models=models,
        routing=routing,
        remaining=remaining,
        tiers=fitted.reports,
        encoders=report_encoders(predictions, options.encoder, score, length, options.seed),
        notes=notes + advise(models, routing),
    )


def _meta(
    task: Task,
    pool: Pool,
    encoder: Encoder,
    knn: KnnHead,
    reserve_tokens: tuple[int, ...],
    options: TrainOptions,
) -> BundleMeta:
    return BundleMeta(
        encoder_name=encoder.name,
        encoder_digest=encoder.digest,
        encoder_dim=encoder.dim,
        grid_name=task.view.name,
        grid_digest=task.view.digest,
        synthetic=task.view.synthetic,
        metric=task.view.metric,
        k=knn.k,
        seed=options.seed,
        models=task.models,
        statistics=_statistics(knn.labels),
        reserve_quantile=RESERVE_QUANTILE,
        reserve_tokens=reserve_tokens,
        pool_name=pool.name,
        pool_digest=pool.digest,
        tiers=tuple(tier_identity(tier) for tier in pool.tiers),
        versions={name: metadata.version(name) for name in ("numpy", "rbx", "xgboost-cpu")},
    )


def _statistics(labels: Labels) -> tuple[ModelStatistics, ...]:
    return tuple(
        ModelStatistics(
            model=model,
            n_scores=int((~np.isnan(labels.score[:, column])).sum()),
            mean_score=float(np.nanmean(labels.score[:, column])),
            n_lengths=int((~np.isnan(labels.length_tokens[:, column])).sum()),
            mean_length_tokens=float(np.nanmean(labels.length_tokens[:, column])),
        )
        for column, model in enumerate(labels.models)
    )


def _encode_alone_ms(encoder: Encoder, task: Task, n: int = 30) -> float:
    """Median time of one test prompt by itself."""
    took_s = []
    encoder.encode([task.view.prompts[task.test[0]]])
    for row in task.test[:n]:
        start_s = time.perf_counter()
        encoder.encode([task.view.prompts[row]])
        took_s.append(time.perf_counter() - start_s)
    return float(np.median(took_s) * 1e3)
