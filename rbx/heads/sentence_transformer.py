"""Any sentence-transformers model as an encoder (extra ``st``)."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from rbx.errors import BundleError, MissingExtraError
from rbx.heads.encoder import Embeddings, unit_rows


class SentenceTransformerEncoder:
    """Wraps ``SentenceTransformer(model)`` on the CPU; see ``rbx.heads.encoder.Encoder``.

    ``model`` is a hub id or a local folder. Texts run one by one: padded batches would let a vector
    depend on its batch mates. Code that comes with a model is never run.
    """

    def __init__(self, model: str) -> None:
        """Load the model; raises ``MissingExtraError`` or ``BundleError``."""
        try:
            from sentence_transformers import SentenceTransformer
        except ImportError:
            raise MissingExtraError(
                f"encoder st:{model} needs sentence-transformers: pip install -e '.[st]' in rbx's folder"
            ) from None
        try:
            self._model: Any = SentenceTransformer(model, device="cpu", trust_remote_code=False)
        except (OSError, ValueError) as error:
            raise BundleError(f"encoder st:{model}: the model can't be loaded: {error}") from None
        self.name = f"st:{model}"
        self.dim = int(self._model.get_sentence_embedding_dimension())
        self.digest = _digest(self._model)

    def encode(self, texts: Sequence[str]) -> Embeddings:
        """Vectors of shape (texts, dim)."""
        if not texts:
            return np.empty((0, self.dim), dtype=np.float32)
        vectors = self._model.encode(
            list(texts), batch_size=1, convert_to_numpy=True, show_progress_bar=False
        )
        return unit_rows(np.asarray(vectors, dtype=np.float32))


def _digest(model: Any) -> str:
    """SHA-256 over every tensor of the model, by name, and its sequence limit."""
    digest = hashlib.sha256(f"st-1|{model.max_seq_length}".encode())
    for name, tensor in sorted(model.state_dict().items()):
        values = np.ascontiguousarray(tensor.detach().cpu().float().numpy())
        digest.update(f"|{name}|{values.shape}|".encode())
        digest.update(values.tobytes())
    return digest.hexdigest()
