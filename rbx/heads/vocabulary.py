"""The uncased BERT word pieces and the tokenizer over them, as MiniLM was trained with."""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Sequence
from importlib import resources

import numpy as np
from numpy.typing import NDArray
from tokenizers import BertWordPieceTokenizer

from rbx.errors import BundleError

VOCABULARY_SHA256 = "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3"
CLS, SEP, UNKNOWN = "[CLS]", "[SEP]", "[UNK]"

# A text is read up to here: cutting to a few hundred pieces still tokenises the whole of it, and a
# megabyte would hold up every other request for seconds.
MAX_CHARACTERS = 32_768


def read_vocabulary() -> tuple[str, ...]:
    """All pieces in the order of their ids; raises ``BundleError`` if the packaged file was altered."""
    packed = resources.files("rbx.heads").joinpath("data", "bert_uncased_vocab.txt.gz").read_bytes()
    try:
        raw = gzip.decompress(packed)
    except (OSError, EOFError) as error:
        raise BundleError(f"rbx/heads/data/bert_uncased_vocab.txt.gz: {error}; reinstall rbx") from None
    found = hashlib.sha256(raw).hexdigest()
    if found != VOCABULARY_SHA256:
        raise BundleError(
            f"rbx/heads/data/bert_uncased_vocab.txt.gz: sha256 is {found}, expected {VOCABULARY_SHA256}; "
            "reinstall rbx"
        )
    return tuple(raw.decode("utf-8").split("\n")[:-1])


class WordPieces:
    """Texts to piece ids: lower case, accents stripped, CJK characters split, cut to ``max_tokens``.

    ``special`` adds [CLS] and [SEP], which then count among ``max_tokens``.
    """

    def __init__(self, max_tokens: int, *, special: bool) -> None:
        """Build the tokenizer; raises ``BundleError`` if the vocabulary was altered."""
        pieces = read_vocabulary()
        self._special = special
        self._tokenizer = BertWordPieceTokenizer(
            {piece: index for index, piece in enumerate(pieces)}, lowercase=True, strip_accents=True
        )
        self._tokenizer.enable_truncation(max_tokens)

    def ids(self, texts: Sequence[str]) -> list[NDArray[np.int64]]:
        """One array of piece ids a text."""
        readable_texts = [readable(text) for text in texts]
        if len(texts) == 1:
            encodings = [self._tokenizer.encode(readable_texts[0], add_special_tokens=self._special)]
        else:
            encodings = self._tokenizer.encode_batch(readable_texts, add_special_tokens=self._special)
        return [np.array(encoding.ids, dtype=np.int64) for encoding in encodings]

    def as_json(self) -> str:
        """The tokenizer in the format of ``tokenizers``, its limit included."""
        return str(self._tokenizer.to_str())


def readable(text: str) -> str:
    """Cut to ``MAX_CHARACTERS``; lone surrogates, which JSON may carry, become question marks."""
    return text[:MAX_CHARACTERS].encode("utf-8", "replace").decode("utf-8")
