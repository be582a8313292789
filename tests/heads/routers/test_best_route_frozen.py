"""The classifier on a frozen encoder: ties, probabilities, threshold and fallback."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from rbx.errors import BundleError
from rbx.heads.routers.best_route.train import best_models
from rbx.heads.routers.best_route_frozen import STRENGTHS, BestRouteFrozen, train
from tests.heads.routers.planted import kinds, planted


def test_probabilities_sum_to_one_and_agree_with_scikit_learn_s() -> None:
    from sklearn.linear_model import LogisticRegression

    task = planted()
    head = train(task, 0)
    found = head.probabilities(task.prompts)
    assert found.sum(axis=1) == pytest.approx(1.0)
    _, best = best_models(task)
    fit = LogisticRegression(C=head.strength, max_iter=300).fit(task.embeddings.astype(np.float64), best)
    assert fit.classes_.tolist() == [0, 1, 2]
    assert found == pytest.approx(fit.predict_proba(task.embeddings.astype(np.float64)), abs=1e-9)


@pytest.mark.parametrize("ties_to", [None, "small", "middle", "large"])
def test_ties_go_where_they_are_told_to_and_else_to_the_cheapest(ties_to: str | None) -> None:
    task = planted()
    score = np.ones_like(task.score)
    score[:10] = (0.0, 0.0, 1.0)  # one model alone is best, whatever ties do
    rows, best = best_models(replace(task, score=score, ties_to=ties_to))
    assert rows.tolist() == list(range(len(score)))
    assert (best[:10] == 2).all()
    assert (best[10:] == task.models.index(ties_to or "small")).all()
    head = train(replace(task, score=score, ties_to=ties_to), 0)
    assert head.described["ties_to"] == ties_to


def test_ties_to_nobody_are_refused() -> None:
    with pytest.raises(BundleError, match="nobody"):
        best_models(replace(planted(), ties_to="nobody"))


def test_prompts_with_a_label_missing_teach_nothing() -> None:
    task = planted()
    score = task.score.copy()
    score[::2, 0] = np.nan
    some, same = train(replace(task, score=score), 0), train(task.rows(np.arange(1, len(score), 2)), 0)
    assert np.array_equal(some.weights, same.weights)
    with pytest.raises(BundleError, match="every model"):
        train(
            replace(
                task, score=np.where(np.arange(3) == np.arange(len(score))[:, None] % 3, task.score, np.nan)
            ),
            0,
        )


def test_a_model_that_is_best_on_held_out_prompts_alone_does_not_choose_the_strength() -> None:
    task = planted()
    held = np.random.default_rng([0, 37]).permutation(len(task.score))[0]
    small_and_middle = task.score * np.array([1.0, 1.0, 0.0]) + np.array([0.1, 0.1, 0.0])
    once = small_and_middle.copy()
    once[held] = (0.0, 0.0, 1.0)
    # A frozen encoder that tells the kinds apart wants a weak penalty, whoever is best once.
    assert train(replace(task, score=small_and_middle), 0).strength > STRENGTHS[0]
    assert train(replace(task, score=once), 0).strength > STRENGTHS[0]


def test_a_model_that_is_never_best_is_never_chosen() -> None:
    task = planted()
    fit = train(replace(task, score=task.score * np.array([1.0, 1.0, 0.0]) + np.array([0.1, 0.1, 0.0])), 0)
    assert (fit.probabilities(task.prompts)[:, 2] == 0.0).all()
    assert (fit.probabilities(task.prompts)[kinds(task) == 1].argmax(axis=1) == 1).mean() > 0.9


def test_whoever_is_unsure_goes_to_the_fallback() -> None:
    task = planted()
    head = train(task, 0)
    probabilities = head.probabilities(task.prompts)
    threshold = float(np.median(probabilities.max(axis=1)))
    unsure = probabilities.max(axis=1) < threshold
    assert 0 < unsure.sum() < len(unsure)
    named = head.sure_from(threshold, task.models[1]).score(task.prompts).argmax(axis=1)
    assert (named[unsure] == 1).all()
    assert (named[~unsure] == probabilities[~unsure].argmax(axis=1)).all()
    default = head.sure_from(threshold, None).score(task.prompts).argmax(axis=1)
    assert (default[unsure] == task.models.index(head.cheapest)).all()


@pytest.mark.parametrize(("threshold", "fallback"), [(1.5, None), (-0.1, None), (0.5, "nobody")])
def test_settings_out_of_range_are_refused(threshold: float, fallback: str | None) -> None:
    head: BestRouteFrozen = train(planted(), 0)
    with pytest.raises(BundleError):
        head.sure_from(threshold, fallback)
