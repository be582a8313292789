from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from rbx.errors import BundleError
from rbx.heads.routers.head import AskedPrompts
from rbx.heads.routers.semantic_router import THRESHOLD, train
from tests.heads.routers.planted import MODELS, SUBJECTS, kinds, planted


def test_the_categories_are_the_sources_and_the_table_is_recorded() -> None:
    task = planted()
    described = train(task, seed=0).described
    best = {
        source: MODELS[int(np.argmax(task.score[np.array(task.sources) == source].mean(axis=0)))]
        for source in SUBJECTS
    }
    assert described["table"] == best
    assert described["default"] == MODELS[int(task.score.mean(axis=0).argmax())]
    assert max(share for _, share in described["held_out_accuracy"]) > 0.95


def test_probabilities_are_those_of_the_classifier_that_was_fitted() -> None:
    from sklearn.linear_model import LogisticRegression

    task, fresh = planted(), planted(seed=1)
    head = train(task, seed=0)
    best = max(head.held_out, key=lambda tried: tried[1])[0]
    other = LogisticRegression(C=best, max_iter=2000).fit(
        task.embeddings.astype(np.float64), np.array(task.sources)
    )
    assert tuple(other.classes_) == head.categories
    expected = other.predict_proba(fresh.embeddings.astype(np.float64))
    assert np.allclose(head.probability(fresh.prompts), expected, atol=1e-3)


def test_below_the_threshold_the_default_model_answers() -> None:
    head = train(planted(), seed=0)
    middle = np.ones((1, 12), dtype=np.float32) / np.sqrt(12)
    unsure = AskedPrompts(["?"], middle)
    assert head.threshold == THRESHOLD
    for threshold in (0.0, 0.999):
        above = head.above(threshold)
        probability = above.probability(unsure)[0]
        expected = (
            head.default
            if probability.max() < threshold
            else head.described["table"][head.categories[int(probability.argmax())]]
        )
        assert MODELS[int(above.score(unsure)[0].argmax())] == expected
    assert head.above(1.0).score(unsure).argmax(axis=1).tolist() == [MODELS.index(head.default)]
    with pytest.raises(BundleError, match="probability"):
        head.above(1.1)


@pytest.mark.parametrize("n_sources", [1, 2])
def test_few_sources_are_categories_like_many(n_sources: int) -> None:
    task = planted()
    kept = np.flatnonzero(kinds(task) < n_sources)
    head = train(task.rows(kept), seed=0)
    assert len(head.categories) == n_sources
    picked = head.above(0.0).score(task.rows(kept).prompts).argmax(axis=1)
    assert (picked == kinds(task)[kept]).mean() > 0.95


def test_a_source_of_few_prompts_may_be_missing_from_a_fold() -> None:
    task = planted(60)
    rare = replace(task, sources=(*task.sources[:-1], "a single prompt"))
    head = train(rare, seed=0)
    assert "a single prompt" in head.categories
    assert np.isfinite(head.probability(task.prompts)).all()
