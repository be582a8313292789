"""MiniLM: vectors that mean something, and depend on their own text alone."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest

from rbx.heads.minilm import MiniLm
from rbx.heads.vocabulary import WordPieces
from rbx.heads.weights import locate_weights

TEXTS = [
    "How do I reverse a list in Python?",
    "Python: what is the way to invert the order of a list?",
    "Who painted the ceiling of the Sistine Chapel?",
    "word " * 300,
    "",
    "Solve 3x + 4 = 19 for x.",
]


@pytest.fixture(scope="module")
def encoder() -> MiniLm:
    return MiniLm(threads=2)


def test_vectors_are_unit_rows_of_384_numbers(encoder: MiniLm) -> None:
    vectors = encoder.encode(TEXTS)
    assert vectors.shape == (len(TEXTS), encoder.dim)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-6)
    assert encoder.encode([]).shape == (0, encoder.dim)


def test_a_paraphrase_is_nearer_than_another_subject(encoder: MiniLm) -> None:
    cosine = encoder.encode(TEXTS) @ encoder.encode(TEXTS[:1])[0]
    assert cosine[0] == pytest.approx(1.0, abs=1e-6)
    assert cosine[1] > 0.7
    assert cosine[2] < 0.2


def test_a_vector_depends_neither_on_batch_mates_nor_on_threads(encoder: MiniLm) -> None:
    together = encoder.encode(TEXTS)
    alone = np.concatenate([encoder.encode([text]) for text in TEXTS])
    np.testing.assert_array_equal(together, alone)
    np.testing.assert_array_equal(together, MiniLm(threads=1).encode(TEXTS[::-1])[::-1])


def test_vectors_equal_a_padded_masked_forward_pass(encoder: MiniLm) -> None:
    rows = WordPieces(256, special=True).ids(TEXTS)
    ids = np.zeros((len(rows), max(len(row) for row in rows)), dtype=np.int64)
    mask = np.zeros_like(ids)
    for position, row in enumerate(rows):
        ids[position, : len(row)], mask[position, : len(row)] = row, 1
    session = onnxruntime.InferenceSession(str(locate_weights().path), providers=["CPUExecutionProvider"])
    (hidden,) = session.run(
        None, {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
    )
    pooled = (hidden * mask[:, :, None]).sum(axis=1) / mask.sum(axis=1, keepdims=True)
    pooled /= np.linalg.norm(pooled, axis=1, keepdims=True)
    assert ((pooled * encoder.encode(TEXTS)).sum(axis=1) > 0.9999).all()
