"""No prompt of a sweep is predicted from its own labels."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from rbx.grid.store import open_view
from rbx.heads.bundle import Bundle
from rbx.heads.knn import KnnHead, Labels
from rbx.sweep.prediction import predict_prompts
from tests.workplace import Workplace


def test_training_prompts_are_left_out_and_order_is_kept(workplace: Workplace) -> None:
    view = open_view(workplace.folder / "datasets/tiny")
    bundle = Bundle.load(workplace.folder / "results/bundles/tiny")
    rows = np.random.default_rng(0).permutation(view.rows("all"))[:60]
    got = predict_prompts(bundle, view, rows)
    train = view.rows("train")
    assert 0 < np.isin(rows, train).sum() < 60
    columns = [view.models.index(model) for model in bundle.models]
    for position, row in enumerate(rows):
        others = train[train != row]
        labels = Labels(
            bundle.models, view.score[np.ix_(others, columns)], view.output_tokens[np.ix_(others, columns)]
        )
        embeddings = bundle.knn.embeddings[np.isin(train, others)]
        alone = KnnHead(embeddings, labels, bundle.knn.k).predict(bundle.encode([view.prompts[row]]))
        assert got.quality[position] == pytest.approx(alone.quality[0], abs=1e-5)
        assert got.length_tokens[position] == pytest.approx(alone.length_tokens[0], rel=1e-4)


def test_labels_of_the_test_split_change_nothing(workplace: Workplace) -> None:
    view = open_view(workplace.folder / "datasets/tiny")
    bundle = Bundle.load(workplace.folder / "results/bundles/tiny")
    rows = view.rows("test")
    scrambled = replace(view, score=1.0 - view.score, output_tokens=view.output_tokens + 500.0)
    before, after = (predict_prompts(bundle, grid, rows).quality for grid in (view, scrambled))
    assert len(rows) > 30
    assert before.tolist() == after.tolist()
