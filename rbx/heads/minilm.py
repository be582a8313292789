"""MiniLM on onnxruntime: mean pooling over the pieces, length one, 384 numbers a text.

Each text runs as its own batch at its exact length. No padding is computed, so this is faster on a CPU
than padded batches (a text of 60 pieces keeps two cores busy by itself), and the vector of a text can't
depend on its batch mates; with padded batches of this int8 model it does, by up to 1e-7 in cosine. Many
texts run side by side on single-threaded sessions, which give the same bits as the threaded one.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from rbx.heads.encoder import Embeddings, unit_rows
from rbx.heads.vocabulary import VOCABULARY_SHA256, WordPieces
from rbx.heads.weights import Weights, locate_weights

DIM = 384
MAX_TOKENS = 256
MAX_THREADS = 8


class MiniLm:
    """all-MiniLM-L6-v2; see ``rbx.heads.encoder.Encoder``."""

    name = "minilm"
    dim = DIM

    def __init__(self, weights: Weights | None = None, threads: int | None = None) -> None:
        """Check the weights; sessions are made at first use."""
        self._weights = weights or locate_weights()
        self._threads = threads or min(MAX_THREADS, available_cores())
        self._pieces = WordPieces(MAX_TOKENS, special=True)
        recipe = f"minilm-1|{self._weights.sha256}|{VOCABULARY_SHA256}|{MAX_TOKENS}|mean"
        self.digest = hashlib.sha256(recipe.encode()).hexdigest()

    def encode(self, texts: Sequence[str]) -> Embeddings:
        """Vectors of shape (texts, 384)."""
        rows = self._pieces.ids(texts)
        pooled = np.empty((len(rows), DIM), dtype=np.float32)
        if len(rows) < 2 or self._threads == 1:
            for row, ids in enumerate(rows):
                pooled[row] = mean_state(self._threaded, ids[None, :])[0]
            return unit_rows(pooled)
        with ThreadPoolExecutor(self._threads) as workers:
            states = workers.map(lambda ids: mean_state(self._single, ids[None, :])[0], rows)
            for row, state in enumerate(states):
                pooled[row] = state
        return unit_rows(pooled)

    def mean_states(self, ids: NDArray[np.int64]) -> NDArray[np.float32]:
        """Mean hidden state of rows of piece ids of one length, shape (rows, 384), not normalised."""
        return mean_state(self._single, ids)

    @cached_property
    def _threaded(self) -> onnxruntime.InferenceSession:
        return _session(self._weights, self._threads)

    @cached_property
    def _single(self) -> onnxruntime.InferenceSession:
        return self._threaded if self._threads == 1 else _session(self._weights, 1)


def available_cores() -> int:
    """Cores that this process may use; not every system can say which, and then it is all of them."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _session(weights: Weights, threads: int) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    # Threads that spin between operators gain a few per cent on an idle machine and lose half on a busy
    # one, and they would spin against the event loop of the gateway that they serve.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return onnxruntime.InferenceSession(str(weights.path), options, providers=["CPUExecutionProvider"])


def mean_state(session: onnxruntime.InferenceSession, ids: NDArray[np.int64]) -> NDArray[np.float32]:
    """One forward pass over rows of equal length, averaged over the pieces."""
    inputs = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
    (hidden,) = session.run(None, inputs)
    pooled: NDArray[np.float32] = hidden.mean(axis=1, dtype=np.float32)
    return pooled
