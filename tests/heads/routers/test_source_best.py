from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from rbx.errors import BundleError
from rbx.heads.routers.head import AskedPrompts
from rbx.heads.routers.source_best import train
from tests.heads.routers.planted import MODELS, SUBJECTS, planted, with_missing


def asked(*sources: str) -> AskedPrompts:
    return AskedPrompts(["?"] * len(sources), np.zeros((len(sources), 12), dtype=np.float32), list(sources))


def test_a_source_goes_to_its_best_mean_and_an_unseen_one_to_the_best_single_model() -> None:
    task = with_missing(planted(480), 0.4)
    head = train(task, seed=0)
    means = {
        source: [
            np.mean(
                [
                    s
                    for s, each in zip(task.score[:, m], task.sources, strict=True)
                    if each == source and s == s
                ]
            )
            for m in range(3)
        ]
        for source in SUBJECTS
    }
    picked = head.score(asked(*SUBJECTS, "cooking")).argmax(axis=1).tolist()
    assert picked[:3] == [int(np.argmax(means[source])) for source in SUBJECTS]
    assert picked[3] == int(np.argmax(np.nanmean(task.score, axis=0)))
    described = head.described
    assert described["best"] == {source: MODELS[picked[k]] for k, source in enumerate(SUBJECTS)}
    assert described["best_single"] == MODELS[picked[3]]
    assert head.score(asked(SUBJECTS[1]))[0] == pytest.approx(means[SUBJECTS[1]])


def test_a_cost_weight_moves_it_to_cheaper_models_at_the_pools_prices() -> None:
    task = planted()
    head = train(task, seed=0)
    cheap, dear = task.price_in_usd, task.price_in_usd[::-1].copy()
    assert set(head.weighing(1e9, cheap, cheap).score(asked(*SUBJECTS)).argmax(axis=1).tolist()) == {0}
    assert set(head.weighing(1e9, dear, dear).score(asked(*SUBJECTS)).argmax(axis=1).tolist()) == {2}
    unweighed = head.weighing(0.0, dear, dear)
    assert np.array_equal(unweighed.score(asked(*SUBJECTS)), head.score(asked(*SUBJECTS)))


def test_a_source_without_a_label_of_a_model_takes_that_models_mean_over_all() -> None:
    task = planted()
    score = task.score.copy()
    score[np.array(task.sources) == SUBJECTS[0], 2] = np.nan
    head = train(replace(task, score=score), seed=0)
    assert head.score(asked(SUBJECTS[0]))[0, 2] == pytest.approx(np.nanmean(score[:, 2]))


def test_without_sources_it_knows_nothing() -> None:
    with pytest.raises(BundleError, match="nobody tells which data set"):
        train(planted(), seed=0).score(AskedPrompts(["?"], np.zeros((1, 12), dtype=np.float32)))
