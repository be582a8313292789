from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from rbx.errors import BundleError
from rbx.heads.routers.build import read_router, router_digest, router_files, train_router
from tests.heads.routers.planted import PLAIN_ROUTERS, kinds, planted, some, with_missing


@pytest.mark.parametrize("name", PLAIN_ROUTERS)
def test_learns_which_model_answers_which_kind_of_prompt(name: str) -> None:
    task, fresh = planted(), planted(seed=1)
    head = train_router(name, task, seed=0)
    picked = head.score(fresh.prompts).argmax(axis=1)
    assert (picked == kinds(fresh)).mean() > 0.95


@pytest.mark.parametrize("name", PLAIN_ROUTERS)
def test_is_the_same_after_it_was_stored_and_when_it_is_trained_again(name: str) -> None:
    task = planted()
    head = train_router(name, task, seed=0)
    files = router_files(name, head)
    back = read_router(name, files)
    assert np.array_equal(head.score(task.prompts), back.score(task.prompts))
    assert router_files(name, back) == files
    assert router_digest(name, train_router(name, task, seed=0)) == router_digest(name, head)


@pytest.mark.parametrize("name", PLAIN_ROUTERS)
def test_scores_of_a_prompt_do_not_depend_on_its_batch(name: str) -> None:
    task = planted()
    head = train_router(name, task, seed=0)
    whole = head.score(some(task, slice(0, 20)))
    alone = np.concatenate([head.score(some(task, slice(row, row + 1))) for row in range(20)])
    assert np.allclose(whole, alone, rtol=0, atol=1e-12)


# best-route-frozen learns from prompts with every label alone: here mostly those that large got wrong.
@pytest.mark.parametrize("name", [name for name in PLAIN_ROUTERS if name != "best-route-frozen"])
def test_missing_labels_are_left_out_and_never_count_as_failures(name: str) -> None:
    task = with_missing(planted(480), 0.3)
    # Model 2 loses the labels of most answers that were right: taken for zeros it would never be chosen.
    score = task.score.copy()
    gone = (score[:, 2] == 1.0) & (np.arange(len(score)) % 4 != 0)
    score[gone, 2] = np.nan
    fresh = planted(seed=1)
    picked = train_router(name, replace(task, score=score), seed=0).score(fresh.prompts).argmax(axis=1)
    assert (picked[kinds(fresh) == 2] == 2).mean() > 0.6


@pytest.mark.parametrize("name", [name for name in PLAIN_ROUTERS if name != "best-route-frozen"])
@pytest.mark.parametrize("labels", [1, 2, 5])
def test_a_model_with_few_labels_is_learnt_from_those(name: str, labels: int) -> None:
    task = planted()
    score = task.score.copy()
    score[labels:, 2] = np.nan
    head = train_router(name, replace(task, score=score), seed=0)
    assert np.isfinite(head.score(task.prompts)).all()


@pytest.mark.parametrize("name", PLAIN_ROUTERS)
@pytest.mark.parametrize("n", [5, 6, 9])
def test_few_prompts_are_enough(name: str, n: int) -> None:
    task = planted().rows(np.arange(n))
    assert np.isfinite(train_router(name, task, seed=0).score(task.prompts)).all()


@pytest.mark.parametrize("name", PLAIN_ROUTERS)
def test_refuses_what_nothing_can_be_learnt_from(name: str) -> None:
    task = planted()
    with pytest.raises(BundleError, match="large"):
        replace(task, score=np.where(np.arange(3) == 2, np.nan, task.score))
    with pytest.raises(BundleError, match="too few"):
        task.rows(np.arange(3))


def test_a_router_of_no_known_kind_or_with_parts_missing_is_refused_by_name() -> None:
    with pytest.raises(BundleError, match="router linear: malformed"):
        read_router("linear", {})
    with pytest.raises(BundleError, match="router linear: malformed"):
        read_router("linear", {"routers/linear.json": b"[" * 100_000})
    with pytest.raises(BundleError, match="no router is called 'nothing'"):
        train_router("nothing", planted(), 0)
