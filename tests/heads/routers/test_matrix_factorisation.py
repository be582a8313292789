from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from rbx.errors import BundleError
from rbx.heads.routers import matrix_factorisation
from rbx.heads.routers.matrix_factorisation import DECAY, train
from tests.heads.routers.planted import kinds, planted


def test_gradients_equal_finite_differences() -> None:
    rng = np.random.default_rng(3)
    embeddings = rng.normal(size=(9, 4))
    score = rng.integers(0, 3, (9, 5)) / 2.0
    wins = score[:, :, None] > score[:, None, :]
    factors = rng.normal(size=(4, 3)), rng.normal(size=3), rng.normal(size=(5, 3))

    def loss(at: tuple[np.ndarray, np.ndarray, np.ndarray]) -> float:
        bare = matrix_factorisation._loss(embeddings, wins, at)
        return bare + DECAY / 2 * float((at[0] ** 2).sum() + (at[2] ** 2).sum())

    slopes = matrix_factorisation._slopes(embeddings, wins, factors)
    for which, slope in enumerate(slopes):
        for index in np.ndindex(*slope.shape):
            up, down = ([each.copy() for each in factors] for _ in range(2))
            up[which][index] += 1e-6
            down[which][index] -= 1e-6
            numeric = (loss((up[0], up[1], up[2])) - loss((down[0], down[1], down[2]))) / 2e-6
            assert slope[index] == pytest.approx(numeric, abs=1e-7)


def test_a_threshold_chooses_between_strong_and_weak_alone() -> None:
    task = planted()
    head = train(task, seed=0)
    assert head.strong != head.weak
    chances = head.strong_wins(task.embeddings)
    for threshold in (0.0, 0.5, 1.0):
        picked = head.between(threshold).score(task.prompts).argmax(axis=1)
        strong, weak = task.models.index(head.strong), task.models.index(head.weak)
        assert np.array_equal(picked, np.where(chances >= threshold, strong, weak))
        # Whoever may not have the one gets the other.
        scores = head.between(threshold).score(task.prompts)
        assert (np.sort(scores[:, [strong, weak]].T, axis=0)[0] > scores.min(axis=1)).all()
    right = kinds(task) == task.models.index(head.strong)
    assert chances[right].mean() > 0.6 > 0.5 > chances[kinds(task) == task.models.index(head.weak)].mean()


def test_needs_somebody_who_wins() -> None:
    task = planted()
    with pytest.raises(BundleError, match="nothing to learn from"):
        train(replace(task, score=np.ones_like(task.score)), seed=0)
