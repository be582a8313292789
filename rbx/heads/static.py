"""A static encoder distilled from MiniLM: one vector a word piece, a text is their weighted mean.

Built once by ``build_table`` (some 15 s on two cores) and kept under the cache directory:

1. MiniLM encodes every piece of the vocabulary as its own text, ``[CLS] piece [SEP]``;
2. the vectors are centred and projected on their 256 principal axes;
3. each is weighted by a / (a + p), a = 0.01 (smooth inverse frequency, Arora et al. 2017), with p the
   Zipf probability of the piece's rank: the vocabulary is ordered by frequency, so no corpus is needed.
   Weaker weighting than the usual 1e-4 predicts quality and length better on prompts (docs/heads.md).

No torch, no download beyond MiniLM's own weights, and no text of the grid goes in.
"""

from __future__ import annotations

import hashlib
import io
import logging
import zipfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rbx.cache_home import cache_home, write_atomically
from rbx.compiled import njit
from rbx.heads.encoder import Embeddings
from rbx.heads.minilm import MiniLm
from rbx.heads.progress import Progress, silent
from rbx.heads.text_by_text import available_cores
from rbx.heads.vocabulary import CLS, SEP, UNKNOWN, VOCABULARY_SHA256, WordPieces, read_vocabulary
from rbx.heads.weights import locate_weights

DIM = 256
MAX_TOKENS = 512
SIF = 1e-2
BLOCK = 256

_log = logging.getLogger(__name__)


class StaticEncoder:
    """Weighted mean of piece vectors; see ``rbx.heads.encoder.Encoder``."""

    name = "static"
    dim = DIM

    def __init__(self, table: NDArray[np.float32], digest: str) -> None:
        """Take a table of shape (pieces, 256) and the digest of its recipe."""
        self._table = table
        self._unknown = read_vocabulary().index(UNKNOWN)
        self._pieces = WordPieces(MAX_TOKENS, special=False)
        self.digest = digest

    def encode(self, texts: Sequence[str]) -> Embeddings:
        """Vectors of shape (texts, 256); a text without a single piece counts as one unknown piece."""
        rows = self._pieces.ids(texts)
        ends = np.cumsum([len(ids) for ids in rows], dtype=np.int64)
        flat = np.concatenate([*rows, np.empty(0, np.int64)])
        return _pool(self._table, flat, ends, self._unknown)


@njit(cache=True)
def _pool(
    table: NDArray[np.float32], flat: NDArray[np.int64], ends: NDArray[np.int64], unknown: int
) -> NDArray[np.float32]:
    out = np.empty((len(ends), table.shape[1]), dtype=np.float32)
    total = np.empty(table.shape[1], dtype=np.float64)
    start = 0
    for row in range(len(ends)):
        total[:] = 0.0
        for position in range(start, ends[row]):
            total += table[flat[position]]
        norm = np.sqrt(np.sum(total * total))
        if norm == 0.0:
            total[:] = table[unknown]
            norm = np.sqrt(np.sum(total * total))
        out[row] = (total / norm).astype(np.float32)
        start = ends[row]
    return out


def static_digest(weights_sha256: str) -> str:
    """Identity of the recipe: teacher, vocabulary and every constant above."""
    recipe = f"static-1|{weights_sha256}|{VOCABULARY_SHA256}|{DIM}|{SIF}|{MAX_TOKENS}|{BLOCK}"
    return hashlib.sha256(recipe.encode()).hexdigest()


def load_static(progress: Progress = silent) -> StaticEncoder:
    """Read the table from the cache, or build and keep it."""
    digest = static_digest(locate_weights().sha256)
    path = cache_home() / "static" / f"{digest}.npz"
    table = _read(path)
    if table is None:
        table = build_table(MiniLm(), progress)
        _keep(path, table)
    return StaticEncoder(table, digest)


def build_table(teacher: MiniLm, progress: Progress = silent) -> NDArray[np.float32]:
    """Distil the table of shape (pieces, 256); deterministic for one teacher on one machine."""
    vocabulary = read_vocabulary()
    states = _states_of_pieces(teacher, vocabulary, progress)
    # Reserved pieces such as [unused7] occur in no text: they get no rank and no say in the axes.
    real = np.array(
        [not (piece.startswith("[") and piece.endswith("]") and len(piece) > 2) for piece in vocabulary]
    )
    centred = states - states[real].mean(axis=0)
    axes = _principal_axes(centred[real])
    rank = np.maximum(np.cumsum(real), 1).astype(np.float64)
    probability = 1.0 / rank / np.sum(1.0 / rank[real])
    probability[~real] = probability[real].min()
    table: NDArray[np.float32] = (centred @ axes * (SIF / (SIF + probability))[:, None]).astype(np.float32)
    return table


def _states_of_pieces(
    teacher: MiniLm, vocabulary: tuple[str, ...], progress: Progress
) -> NDArray[np.float64]:
    first, last = vocabulary.index(CLS), vocabulary.index(SEP)
    starts = range(0, len(vocabulary), BLOCK)

    def block(start: int) -> NDArray[np.float32]:
        pieces = np.arange(start, min(start + BLOCK, len(vocabulary)), dtype=np.int64)
        ids = np.column_stack([np.full_like(pieces, first), pieces, np.full_like(pieces, last)])
        return teacher.mean_states(ids)

    blocks = []
    with ThreadPoolExecutor(available_cores()) as workers:
        for states in workers.map(block, starts):
            blocks.append(states)
            progress("distil static encoder", min(len(blocks) * BLOCK, len(vocabulary)), len(vocabulary))
    return np.concatenate(blocks).astype(np.float64)


def _principal_axes(centred: NDArray[np.float64]) -> NDArray[np.float64]:
    """The ``DIM`` leading axes as columns, each with its largest entry positive (a fixed sign)."""
    _, vectors = np.linalg.eigh(centred.T @ centred)
    axes = vectors[:, ::-1][:, :DIM]
    peaks = axes[np.abs(axes).argmax(axis=0), np.arange(axes.shape[1])]
    fixed: NDArray[np.float64] = axes * np.sign(peaks)
    return fixed


def _read(path: Path) -> NDArray[np.float32] | None:
    """The cached table, or None where it is absent or damaged (it is then built again)."""
    try:
        with np.load(path) as stored:
            table: NDArray[np.float32] = stored["table"]
            intact = hashlib.sha256(table.tobytes()).hexdigest() == str(stored["sha256"])
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        intact = False
    if not intact:
        _log.warning("%s is damaged; the static encoder is distilled again", path)
        return None
    return table


def _keep(path: Path, table: NDArray[np.float32]) -> None:
    buffer = io.BytesIO()
    np.savez(buffer, table=table, sha256=np.array(hashlib.sha256(table.tobytes()).hexdigest()))
    try:
        write_atomically(path, buffer.getvalue())
    except OSError as error:
        _log.warning("%s can't be written (%s); the static encoder will be distilled again", path, error)
