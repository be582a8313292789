"""MiniLM on onnxruntime: mean pooling over the pieces, length one, 384 numbers a text.

Each text runs as its own batch at its exact length (``rbx.heads.text_by_text``): with padded batches of this
int8 model a vector depends on its batch mates, by up to 1e-7 in cosine.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from rbx.heads.encoder import Embeddings, unit_rows
from rbx.heads.text_by_text import TextByText
from rbx.heads.vocabulary import VOCABULARY_SHA256, WordPieces
from rbx.heads.weights import Weights, locate_weights

DIM = 384
MAX_TOKENS = 256


class MiniLm:
    """all-MiniLM-L6-v2; see ``rbx.heads.encoder.Encoder``."""

    name = "minilm"
    dim = DIM

    def __init__(self, weights: Weights | None = None, threads: int | None = None) -> None:
        """Check the weights; sessions are made at first use."""
        self._weights = weights or locate_weights()
        self._runs = TextByText(lambda: str(self._weights.path), threads)
        self._pieces = WordPieces(MAX_TOKENS, special=True)
        recipe = f"minilm-1|{self._weights.sha256}|{VOCABULARY_SHA256}|{MAX_TOKENS}|mean"
        self.digest = hashlib.sha256(recipe.encode()).hexdigest()

    def encode(self, texts: Sequence[str]) -> Embeddings:
        """Vectors of shape (texts, 384)."""
        pooled = np.empty((len(texts), DIM), dtype=np.float32)
        states = self._runs.map(
            lambda session, ids: mean_state(session, ids[None, :])[0], self._pieces.ids(texts)
        )
        for row, state in enumerate(states):
            pooled[row] = state
        return unit_rows(pooled)

    def mean_states(self, ids: NDArray[np.int64]) -> NDArray[np.float32]:
        """Mean hidden state of rows of piece ids of one length, shape (rows, 384), not normalised."""
        return mean_state(self._runs.single, ids)


def mean_state(session: onnxruntime.InferenceSession, ids: NDArray[np.int64]) -> NDArray[np.float32]:
    """One forward pass over rows of equal length, averaged over the pieces."""
    inputs = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
    (hidden,) = session.run(None, inputs)
    pooled: NDArray[np.float32] = hidden.mean(axis=1, dtype=np.float32)
    return pooled
