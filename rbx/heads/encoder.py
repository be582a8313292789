"""Encoders: texts to unit vectors.

One protocol, three kinds: ``minilm`` (ONNX, no torch), ``static`` (distilled from it, some 50 times
cheaper) and ``st:NAME`` (any sentence-transformers model). Training and serving embed the same text,
and the embedding of a text never depends on what else is encoded with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from rbx.errors import UsageError
from rbx.heads.progress import Progress, silent

Embeddings = NDArray[np.float32]


class Encoder(Protocol):
    """Texts to float32 vectors of length one, shape (texts, dim).

    ``digest`` identifies everything that decides a vector: weights, vocabulary, pooling, limits.
    """

    @property
    def name(self) -> str:
        """``minilm``, ``static`` or ``st:NAME``."""

    @property
    def dim(self) -> int:
        """Length of each vector."""

    @property
    def digest(self) -> str:
        """SHA-256 of all that decides a vector."""

    def encode(self, texts: Sequence[str]) -> Embeddings:
        """Encode texts, whatever their number; each result is independent of the others."""


@dataclass(frozen=True)
class EncoderCost:
    """Time to encode one request: ``per request + per token · min(tokens, max_tokens)``, in seconds.

    Constants of the code, so that simulated results never depend on how busy a machine is; measured
    with ``python -m benchmarks.bench_heads`` on two cores of an AMD EPYC (AVX2).
    """

    encode_s_per_request: float
    encode_s_per_token: float
    max_tokens: int


_COSTS = {
    "minilm": EncoderCost(0.0015, 0.000170, 256),
    "static": EncoderCost(0.0001, 0.000002, 512),
    # A MiniLM-sized model under torch; a larger one needs its own figures in the experiment file.
    "st": EncoderCost(0.0230, 0.000150, 256),
}


def encoder_cost(name: str) -> EncoderCost:
    """The documented cost of an encoder kind; raises ``UsageError`` for an unknown name."""
    kind = name.split(":", 1)[0]
    if kind not in _COSTS:
        raise UsageError(_unknown(name))
    return _COSTS[kind]


def load_encoder(name: str, progress: Progress = silent) -> Encoder:
    """Make the encoder called ``name``.

    Raises ``UsageError`` for an unknown name, ``MissingExtraError`` where a package is needed, and
    ``BundleError`` where weights are missing or altered.
    """
    if name == "minilm":
        from rbx.heads.minilm import MiniLm

        return MiniLm()
    if name == "static":
        from rbx.heads.static import load_static

        return load_static(progress)
    if name.startswith("st:") and len(name) > 3:
        from rbx.heads.sentence_transformer import SentenceTransformerEncoder

        return SentenceTransformerEncoder(name[3:])
    raise UsageError(_unknown(name))


def _unknown(name: str) -> str:
    return f"unknown encoder {name!r}; known: minilm, static, st:NAME (any sentence-transformers model)"


def unit_rows(vectors: NDArray[np.float32]) -> Embeddings:
    """Scale each row to length one."""
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    scaled: Embeddings = (vectors / norms).astype(np.float32)
    return scaled
