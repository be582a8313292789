"""The nearest-neighbour head against brute force, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from rbx.errors import BundleError
from rbx.heads.knn import KnnHead, Labels


def unit(rng: np.random.Generator, n: int, dim: int) -> NDArray[np.float32]:
    vectors = rng.normal(size=(n, dim))
    scaled: NDArray[np.float32] = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(
        np.float32
    )
    return scaled


def labels(rng: np.random.Generator, n: int, m: int, missing: float) -> Labels:
    score, length = rng.random((n, m)), np.floor(rng.lognormal(5.0, 1.2, (n, m))) + 1
    score[rng.random((n, m)) < missing] = np.nan
    length[rng.random((n, m)) < missing] = np.nan
    score[0], length[0] = 0.5, 100.0  # every model keeps at least one label
    return Labels(tuple(f"m{i}" for i in range(m)), score, length)


def brute_force(
    train: NDArray[np.float32], known: Labels, query: NDArray[np.float32], k: int, skip: int = -1
) -> tuple[list[float], list[float], NDArray[np.float64]]:
    cosine = train.astype(np.float64) @ query.astype(np.float64)
    ranked = [i for i in sorted(range(len(train)), key=lambda i: (-cosine[i], i)) if i != skip][:k]
    weight = {i: 1 / (max(0.0, 1 - cosine[i]) + 1e-6) for i in ranked}
    quality, length = [], []
    histogram = np.zeros((len(known.models), 16))
    for m in range(len(known.models)):
        scored = [i for i in ranked if not np.isnan(known.score[i, m])]
        told = [i for i in ranked if not np.isnan(known.length_tokens[i, m])]
        total = sum(weight[i] for i in scored)
        quality.append(
            sum(weight[i] * known.score[i, m] for i in scored) / total
            if scored
            else float(np.nanmean(known.score[:, m]))
        )
        total = sum(weight[i] for i in told)
        mean = float(np.nanmean(known.length_tokens[:, m]))
        length.append(sum(weight[i] * known.length_tokens[i, m] for i in told) / total if told else mean)
        for i in told:
            histogram[m, min(int(known.length_tokens[i, m] // 64), 15)] += weight[i] / total
        if not told:
            histogram[m, min(int(mean // 64), 15)] = 1
    return quality, length, histogram


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    n=st.integers(2, 60),
    k=st.integers(1, 12),
    n_queries=st.integers(1, 12),
    missing=st.sampled_from([0.0, 0.3, 0.9]),
)
def test_predictions_equal_brute_force(seed: int, n: int, k: int, n_queries: int, missing: float) -> None:
    rng = np.random.default_rng(seed)
    train, known = unit(rng, n, 8), labels(rng, n, 3, missing)
    queries = np.concatenate([unit(rng, n_queries, 8), train[:1]])  # a training prompt comes back too
    predicted = KnnHead(train, known, k).predict(queries)
    for row, query in enumerate(queries):
        quality, length, histogram = brute_force(train, known, query, k)
        np.testing.assert_allclose(predicted.quality[row], quality, rtol=1e-6)
        np.testing.assert_allclose(predicted.length_tokens[row], length, rtol=1e-6)
        np.testing.assert_allclose(predicted.length_histogram[row], histogram, rtol=1e-6, atol=1e-9)
    assert (predicted.length_tokens >= 1).all()
    assert (predicted.quality >= 0).all()
    np.testing.assert_allclose(predicted.length_histogram.sum(axis=2), 1.0)


def test_left_out_predictions_ignore_the_prompts_own_labels() -> None:
    rng = np.random.default_rng(1)
    train, known = unit(rng, 40, 8), labels(rng, 40, 2, 0.1)
    predicted = KnnHead(train, known, 5).predict_left_out(np.arange(40))
    for row in range(40):
        quality, length, _ = brute_force(train, known, train[row], 5, skip=row)
        np.testing.assert_allclose(predicted.quality[row], quality, rtol=1e-6)
        np.testing.assert_allclose(predicted.length_tokens[row], length, rtol=1e-6)


def test_the_answer_to_a_query_does_not_depend_on_its_batch() -> None:
    rng = np.random.default_rng(2)
    train = unit(rng, 3000, 64)
    train[1000:1010] = train[0]  # exact ties, more than the index is asked for beyond k
    head = KnnHead(train, labels(rng, 3000, 4, 0.0), 10)
    queries = np.concatenate([unit(rng, 39, 64), train[:1]])
    together = head.predict(queries)
    alone = [head.predict(query[None, :]) for query in queries]
    np.testing.assert_array_equal(together.quality, np.concatenate([p.quality for p in alone]))
    np.testing.assert_array_equal(together.length_tokens, np.concatenate([p.length_tokens for p in alone]))


def test_zero_is_a_score_and_missing_is_not_zero() -> None:
    train = np.eye(3, dtype=np.float32)
    known = Labels(
        ("zero", "missing"),
        np.array([[0.0, np.nan], [0.0, 1.0], [0.0, 1.0]]),
        np.array([[10.0, np.nan], [10.0, 20.0], [10.0, 20.0]]),
    )
    predicted = KnnHead(train, known, 3).predict(train[:1])
    assert predicted.quality[0].tolist() == [0.0, 1.0]
    assert predicted.length_tokens[0].tolist() == pytest.approx([10.0, 20.0])


def test_bucket_edges() -> None:
    lengths = np.array([[1.0], [63.0], [64.0], [959.0], [960.0], [9000.0]])
    head = KnnHead(np.eye(6, dtype=np.float32), Labels(("m",), np.ones((6, 1)), lengths), 1)
    histogram = head.predict(np.eye(6, dtype=np.float32)).length_histogram[:, 0]
    assert histogram.argmax(axis=1).tolist() == [0, 0, 1, 14, 15, 15]


def test_k_beyond_the_index_is_clamped_with_a_note(caplog: pytest.LogCaptureFixture) -> None:
    rng = np.random.default_rng(3)
    head = KnnHead(unit(rng, 4, 8), labels(rng, 4, 2, 0.0), 10)
    assert head.k == 4
    assert "k = 10 exceeds the 4 training prompts" in caplog.text


@pytest.mark.parametrize(
    ("embeddings", "score", "k", "said"),
    [
        (np.empty((0, 4)), np.empty((0, 1)), 1, "0 prompts"),
        (np.eye(4), np.ones((3, 1)), 1, "score has shape"),
        (np.full((4, 4), np.nan), np.ones((4, 1)), 1, "training prompt 0"),
        (2 * np.eye(4), np.ones((4, 1)), 1, "has length 2, not 1"),
        (np.eye(4), np.full((4, 1), np.nan), 1, "m: no training prompt has a value of score"),
        (np.eye(4), np.array([[0.0], [np.inf], [0.0], [0.0]]), 1, "infinity in row 1"),
        (np.eye(4), np.ones((4, 1)), 0, "k is 0"),
    ],
)
def test_a_faulty_index_is_refused(
    embeddings: NDArray[np.float64], score: NDArray[np.float64], k: int, said: str
) -> None:
    with pytest.raises(BundleError, match=said):
        KnnHead(embeddings.astype(np.float32), Labels(("m",), score, np.ones_like(score)), k)


def test_a_model_without_any_length_is_told_by_the_column_of_the_grid() -> None:
    known = Labels(("m",), np.ones((4, 1)), np.full((4, 1), np.nan))
    with pytest.raises(BundleError, match=r"^m: no training prompt has a value of output_tokens; take the"):
        KnnHead(np.eye(4, dtype=np.float32), known, 2)


def test_faulty_queries_are_refused() -> None:
    head = KnnHead(np.eye(4, dtype=np.float32), Labels(("m",), np.ones((4, 1)), np.ones((4, 1))), 2)
    with pytest.raises(BundleError, match="holds 4 numbers"):
        head.predict(np.eye(3, dtype=np.float32))
    broken = np.eye(4, dtype=np.float32)
    broken[2, 1] = np.nan
    with pytest.raises(BundleError, match="prompt 2 holds NaN"):
        head.predict(broken)
