"""A fine-tuned encoder with its last layer, as it serves: on onnxruntime, without torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from scipy.special import softmax

from rbx.heads.routers.best_route.architecture import Architecture, Tensors, relative_buckets
from rbx.heads.routers.best_route.encoder_graph import BUCKETS, IDS, encoder_graph
from rbx.heads.routers.best_route.token_reader import TokenReader
from rbx.heads.text_by_text import TextByText

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Classifier:
    """``tensors`` of the encoder by name; ``weights`` (dim, M) and ``offset`` (M,) make logits of its state.

    ``tokenizer`` is JSON in the format of ``tokenizers``.
    """

    architecture: Architecture
    tensors: Tensors
    weights: NDArray[np.float32]
    offset: NDArray[np.float32]
    tokenizer: str

    def probabilities(self, texts: Sequence[str]) -> Floats:
        """P(a model is the best for a prompt), (texts, M); a row does not depend on the other texts."""
        asked = tuple(texts)
        known, found = self._latest[0]
        # One sweep asks about the same prompts once for each threshold.
        if known != asked:
            found = self._fresh(asked)
            self._latest[0] = asked, found
        return found

    def _fresh(self, texts: tuple[str, ...]) -> Floats:
        states = self._runs.map(self._state, self._reader.ids(texts))
        if not states:
            return np.empty((0, len(self.offset)))
        # Row by row: a product over all rows may add in another order.
        logits = [state @ self.weights + self.offset for state in states]
        return np.asarray(softmax(np.array(logits, dtype=np.float64), axis=1))

    def _state(self, session: onnxruntime.InferenceSession, ids: Ints) -> NDArray[np.float32]:
        given = {IDS: ids}
        if self.architecture.buckets:
            given[BUCKETS] = relative_buckets(len(ids), self.architecture)
        (states,) = session.run(None, given)
        pooled = states[0] if self.architecture.pooling == "first" else states.mean(axis=0)
        return np.asarray(pooled, dtype=np.float32)

    @cached_property
    def _reader(self) -> TokenReader:
        return TokenReader(self.tokenizer, self.architecture.max_tokens)

    @cached_property
    def _runs(self) -> TextByText:
        return TextByText(lambda: encoder_graph(self.tensors, self.architecture))

    @cached_property
    def _latest(self) -> list[tuple[tuple[str, ...], Floats]]:
        """One pair, replaced whole: several threads may ask."""
        return [((), np.empty((0, len(self.offset))))]
