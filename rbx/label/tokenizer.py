"""How many tokens a text has: by a ``tokenizer.json``, or estimated where there is none."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from rbx.errors import DatasetError
from rbx.grid.table import CHARACTERS_PER_TOKEN, estimated_tokens


class TokenCounter:
    """Counts tokens of bare texts, without a chat template and without special tokens.

    ``origin`` says how, as a manifest's ``input_tokens`` does: it begins with ``estimated`` where the count
    is an estimate. ``sha256`` is that of the tokenizer's file, None for an estimate.
    """

    def __init__(self, path: Path | None) -> None:
        """Load a ``tokenizer.json``; raises ``DatasetError`` where it is absent or none."""
        self.path = path
        if path is None:
            self._tokenizer = None
            self.sha256 = None
            self.origin = f"estimated: characters / {CHARACTERS_PER_TOKEN}"
            return
        from tokenizers import Tokenizer

        try:
            content = path.read_bytes()
        except OSError as error:
            raise DatasetError(f"{path}: the tokenizer can't be read: {error.strerror or error}") from None
        try:
            self._tokenizer = Tokenizer.from_buffer(content)
        except ValueError as error:
            raise DatasetError(
                f"{path}: not a tokenizer ({error}); give the tokenizer.json that comes with the model"
            ) from None
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self.sha256 = hashlib.sha256(content).hexdigest()
        self.origin = f"counted with {path.name} (sha256 {self.sha256[:16]}), without a chat template"

    def counts(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each text."""
        if self._tokenizer is None:
            return [estimated_tokens(text) for text in texts]
        encoded = self._tokenizer.encode_batch(list(texts), add_special_tokens=False)
        return [len(each) for each in encoded]
