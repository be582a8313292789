"""Texts to token ids by a stored tokenizer."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from rbx.heads.vocabulary import readable


class TokenReader:
    """A tokenizer in the format of ``tokenizers``, with its special tokens, cut to ``max_tokens``."""

    def __init__(self, stored: str, max_tokens: int) -> None:
        """Whatever padding and limit ``stored`` came with gives way to none and to ``max_tokens``."""
        self._tokenizer = Tokenizer.from_str(stored)
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(max_tokens)

    def ids(self, texts: Sequence[str]) -> list[NDArray[np.int64]]:
        """One array of ids a text, never empty."""
        encodings = self._tokenizer.encode_batch([readable(text) for text in texts])
        return [np.array(encoding.ids, dtype=np.int64) for encoding in encodings]
