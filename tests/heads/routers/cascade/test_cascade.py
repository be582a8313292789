"""The whole router: learnt from texts, stored, and planned for budgets and prices."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from rbx.errors import BundleError
from rbx.heads.routers.build import read_router, router_digest, router_files
from rbx.heads.routers.cascade.router import Cascade
from rbx.heads.routers.cascade.train import train
from tests.heads.routers.cascade.told import BAD, GOOD, told


@pytest.fixture(scope="module")
def cascade() -> Cascade:
    return train(told(), 0)


def test_it_tells_good_answers_from_bad_ones_of_prompts_it_has_not_seen(cascade: Cascade) -> None:
    fresh = told(60, seed=1)
    assert fresh.answers is not None
    found = cascade.answer_scores(fresh.texts, fresh.answers)
    assert ((found > 0.5) == (fresh.score == 1.0)).mean() > 0.99
    assert found.min() >= 0.0
    assert found.max() <= 1.0
    one = [cascade.answer_score_of(fresh.texts[k], fresh.answers[k][2] or "", 2) for k in range(9)]
    assert one == found[:9, 2].tolist()


def test_asking_on_beats_every_single_model_where_bad_answers_are_recognised(cascade: Cascade) -> None:
    fresh = told(240, seed=1)
    assert fresh.answers is not None
    found = cascade.answer_scores(fresh.texts, fresh.answers)
    chain = cascade.trading(0.0).planned
    ended = chain.last_asked(found)
    quality = fresh.score[np.arange(240), ended].mean()
    assert chain.models == (0, 1, 2)
    assert quality > fresh.score.mean(axis=0).max() + 0.2
    dear = cascade.trading(1e9).planned
    assert dear.models == (0,)
    assert cascade.within(1e-12).planned.models == (0,)


def test_other_prices_turn_the_order_without_new_training(cascade: Cascade) -> None:
    turned = cascade.priced(cascade.price_in_usd[::-1], cascade.price_out_usd[::-1])
    assert turned.trading(0.0).planned.models == (2, 1, 0)


def test_it_is_the_same_after_it_was_stored_and_trained_again(cascade: Cascade) -> None:
    files = router_files("cascade", cascade)
    back = read_router("cascade", files)
    assert isinstance(back, Cascade)
    assert router_files("cascade", back) == files
    assert router_digest("cascade", train(told(), 1)) == router_digest("cascade", cascade)
    assert back.within(5e-5).planned == cascade.within(5e-5).planned
    texts, answers = ("a prompt",), ((GOOD, BAD, None),)
    np.testing.assert_array_equal(back.answer_scores(texts, answers), cascade.answer_scores(texts, answers))


def test_a_missing_text_has_no_score_and_an_empty_answer_has_one(cascade: Cascade) -> None:
    found = cascade.answer_scores(("a prompt",), ((None, "", GOOD),))
    assert np.isnan(found[0]).tolist() == [True, False, False]


def test_it_is_refused_where_nobody_knows_what_was_said() -> None:
    task = told()
    assert task.answers is not None
    with pytest.raises(BundleError, match="none were read"):
        train(replace(task, answers=None), 0)
    silent = tuple((first, None, third) for first, _, third in task.answers)
    with pytest.raises(BundleError, match="0 scored ones of middle"):
        train(replace(task, answers=silent), 0)
