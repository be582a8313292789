from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import pytest

from rbx.errors import MissingExtraError
from rbx.heads.routers.best_route.train import best_models
from rbx.heads.routers.build import train_router
from tests.heads.routers.planted import planted


def test_the_label_is_the_best_model_the_cheapest_of_several_and_nobody_where_a_score_is_missing() -> None:
    task = planted(6)
    missing = np.nan
    score = np.array(
        [
            [0.0, 0.5, 1.0],
            [1.0, 1.0, 0.0],
            [0.0, 0.0, 0.0],
            [missing, missing, missing],
            [missing, 0.2, 0.1],
            [0.3, 0.1, 0.3],
        ]
    )
    rows, best = best_models(replace(task, score=score))
    assert rows.tolist() == [0, 1, 2, 5]
    assert best.tolist() == [2, 0, 0, 0]
    turned = replace(
        task, score=score, price_in_usd=task.price_in_usd[::-1], price_out_usd=task.price_out_usd[::-1]
    )
    assert best_models(turned)[1].tolist() == [2, 1, 2, 2]


def test_without_torch_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtraError, match=r"pip install -e '.\[st\]'"):
        train_router("best-route", planted(), 0)
