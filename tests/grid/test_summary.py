"""The summary against loops over plain lists."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rbx.errors import DatasetError
from rbx.grid.schema import GridView
from rbx.grid.summary import SourceCounts, summarise

SCORES = st.one_of(st.just(math.nan), st.sampled_from([0.0, 0.1, 0.5, 1.0]))


def view_of(rows: list[list[float]], lengths: list[list[float]] | None = None) -> GridView:
    n, m = len(rows), len(rows[0])
    score = np.array(rows, dtype=np.float64)
    return GridView(
        name="tiny",
        digest="d",
        synthetic=False,
        metric="quality",
        models=tuple(f"m{i}" for i in range(m)),
        prompt_ids=tuple(f"p{i}" for i in range(n)),
        prompts=tuple(f"text {i}" for i in range(n)),
        sources=("s",) * n,
        is_harmful=np.zeros(n, dtype=np.bool_),
        is_train=np.arange(n) % 2 == 0,
        input_tokens=np.full(n, 10, dtype=np.int64),
        output_tokens=np.array(lengths, dtype=np.float64) if lengths else np.full((n, m), 5.0),
        score=score,
    )


@given(st.integers(1, 4).flatmap(lambda m: st.lists(st.lists(SCORES, min_size=m, max_size=m), min_size=1)))
def test_reference_lines_equal_loops(rows: list[list[float]]) -> None:
    summary = summarise(view_of(rows))
    complete = [row for row in rows if not any(map(math.isnan, row))]
    known = [score for row in rows for score in row if not math.isnan(score)]
    assert summary.n_complete == len(complete)
    for column, model in enumerate(summary.models):
        own = [row[column] for row in rows if not math.isnan(row[column])]
        assert model.n == len(own)
        assert model.mean == (pytest.approx(sum(own) / len(own)) if own else None)
    if known:
        assert summary.zeros_share == pytest.approx(known.count(0.0) / len(known))
    if not complete:
        assert summary.oracle is summary.random is summary.best_single is summary.same_share is None
        return
    assert summary.oracle == pytest.approx(sum(map(max, complete)) / len(complete))
    assert summary.random == pytest.approx(sum(map(sum, complete)) / len(complete) / len(rows[0]))
    assert summary.same_share == pytest.approx(sum(len(set(row)) == 1 for row in complete) / len(complete))
    assert summary.best_single == pytest.approx(max(map(sum, zip(*complete, strict=True))) / len(complete))
    assert summary.oracle is not None
    assert summary.best_single is not None
    assert summary.best_single <= summary.oracle + 1e-12


def test_lengths_leave_out_what_is_unknown() -> None:
    lengths = [[1.0, math.nan], [3.0, 7.0], [8.0, math.nan]]
    summary = summarise(view_of([[0.0, 1.0]] * 3, lengths))
    first, second = summary.models
    assert (first.length_mean, first.length_p50, first.length_max, first.n_lengths) == (4.0, 3.0, 8.0, 3)
    assert (second.length_mean, second.length_p95, second.n_lengths) == (7.0, 7.0, 1)


def test_sources_are_counted_by_split() -> None:
    view = replace(
        view_of([[0.0]] * 4), sources=("b", "a", "b", "b"), is_harmful=np.array([True] * 2 + [False] * 2)
    )
    found = summarise(view).sources
    assert found == {"a": SourceCounts(0, 1, 1), "b": SourceCounts(2, 1, 1)}
    assert list(found) == ["a", "b"]
    assert summarise(view, "test").sources == {"a": SourceCounts(0, 1, 1), "b": SourceCounts(0, 1, 0)}


def test_splits_are_summarised_apart() -> None:
    view = view_of([[0.0], [1.0], [0.0], [1.0], [0.0]])
    assert [summarise(view, split).models[0].mean for split in ("train", "test", "all")] == [0.0, 1.0, 0.4]
    assert [summarise(view, split).prompts for split in ("train", "test", "all")] == [3, 2, 5]
    with pytest.raises(DatasetError, match="grid tiny: no test prompts"):
        summarise(view_of([[1.0]]), "test")


def test_the_document_is_json() -> None:
    document: dict[str, Any] = json.loads(
        json.dumps(summarise(view_of([[math.nan]])).document(), allow_nan=False)
    )
    assert document["models"][0]["mean"] is None
    assert document["oracle"] is None
