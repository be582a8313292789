"""Training prompts in which it is known who answers what."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from rbx.heads.routers.build import ROUTERS
from rbx.heads.routers.head import AskedPrompts
from rbx.heads.routers.task import RouterTask

# All but those that need torch or the texts of answers, which have tests of their own.
PLAIN_ROUTERS = tuple(name for name in ROUTERS if name not in ("best-route", "cascade"))
MODELS = ("small", "middle", "large")
KINDS = 3
SUBJECTS = ("geometry of circles", "history of Rome", "sorting in Python")


def planted(n: int = 240, dim: int = 12, seed: int = 0, missing: float = 0.0) -> RouterTask:
    """Three kinds of prompt around three directions; model j is right on kind j with .9, else with .2."""
    rng = np.random.default_rng(seed)
    kind = np.arange(n) % KINDS
    vectors = 3.0 * np.eye(KINDS, dim)[kind] + rng.normal(0.0, 0.3, (n, dim))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    right = np.where(kind[:, None] == np.arange(len(MODELS)), 0.9, 0.2)
    score = (rng.random((n, len(MODELS))) < right).astype(np.float64)
    score[rng.random(score.shape) < missing] = np.nan
    return RouterTask(
        models=MODELS,
        texts=tuple(f"{SUBJECTS[row % KINDS]}, question {row}" for row in range(n)),
        sources=tuple(SUBJECTS[row % KINDS] for row in range(n)),
        embeddings=vectors.astype(np.float32),
        score=score,
        input_tokens=np.full(n, 100),
        output_tokens=np.full((n, len(MODELS)), 200.0),
        price_in_usd=np.array([1e-7, 2e-7, 4e-7]),
        price_out_usd=np.array([1e-7, 2e-7, 4e-7]),
    )


def some(task: RouterTask, rows: slice) -> AskedPrompts:
    """Some of a task's prompts as they are asked about."""
    return AskedPrompts(task.texts[rows], task.embeddings[rows], task.sources[rows])


def kinds(task: RouterTask) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Which model is the right one, (N,)."""
    return np.arange(len(task.texts)) % KINDS


def with_missing(task: RouterTask, share: float) -> RouterTask:
    """The same prompts with some labels gone."""
    score = task.score.copy()
    score[np.random.default_rng(5).random(score.shape) < share] = np.nan
    return replace(task, score=score)
