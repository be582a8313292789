"""Embeddings kept between runs, one vector a (encoder digest, text digest).

Vectors lie in shards ``embeddings/ENCODER/CONTENT.npz`` under the cache directory; a shard is written
once, atomically, and named by its keys, so that several processes may encode side by side. The whole
folder is held under ``MAX_BYTES`` by dropping the oldest shards. Used offline (training, planning a
sweep), never for the prompts of live traffic.
"""

from __future__ import annotations

import hashlib
import io
import logging
import zipfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rbx.cache_home import cache_home, write_atomically
from rbx.heads.encoder import Embeddings, Encoder
from rbx.heads.progress import Progress, silent

BLOCK = 256
STEP = 16
MAX_BYTES = 1 << 30

_log = logging.getLogger(__name__)


def encode_cached(encoder: Encoder, texts: Sequence[str], progress: Progress = silent) -> Embeddings:
    """Embeddings of shape (texts, dim), encoding only what no earlier run has encoded.

    An interrupted run loses at most the ``BLOCK`` texts under way.
    """
    folder = cache_home() / "embeddings" / encoder.digest[:32]
    keys = [hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:16] for text in texts]
    known = _read_shards(folder, encoder.dim, set(keys))
    missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in known}
    _encode_missing(encoder, missing, known, folder, progress)
    out = np.empty((len(texts), encoder.dim), dtype=np.float32)
    for row, key in enumerate(keys):
        out[row] = known[key]
    return out


def _encode_missing(
    encoder: Encoder,
    missing: dict[bytes, str],
    known: dict[bytes, NDArray[np.float32]],
    folder: Path,
    progress: Progress,
) -> None:
    items = list(missing.items())
    for start in range(0, len(items), BLOCK):
        block = items[start : start + BLOCK]
        vectors: list[NDArray[np.float32]] = []
        for step in range(0, len(block), STEP):
            vectors.append(encoder.encode([text for _, text in block[step : step + STEP]]))
            done = min(start + step + STEP, len(items))
            progress(f"encode prompts ({encoder.name})", done, len(items))
        stacked = np.concatenate(vectors)
        _write_shard(folder, [key for key, _ in block], stacked)
        known.update(zip((key for key, _ in block), stacked, strict=True))
    if items:
        _trim(folder.parent)


def _read_shards(folder: Path, dim: int, wanted: set[bytes]) -> dict[bytes, NDArray[np.float32]]:
    found: dict[bytes, NDArray[np.float32]] = {}
    for path in sorted(folder.glob("*.npz")):
        try:
            with np.load(path) as shard:
                keys, vectors = shard["keys"], shard["vectors"]
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
            _log.warning("%s is damaged and left out; its prompts are encoded again", path)
            continue
        if vectors.shape != (len(keys), dim):
            continue
        rows = zip((row.tobytes() for row in keys), vectors, strict=True)
        found.update({key: vector for key, vector in rows if key in wanted})
    return found


def _write_shard(folder: Path, keys: list[bytes], vectors: NDArray[np.float32]) -> None:
    buffer = io.BytesIO()
    np.savez(buffer, keys=np.frombuffer(b"".join(keys), dtype=np.uint8).reshape(-1, 16), vectors=vectors)
    name = hashlib.sha256(b"".join(keys)).hexdigest()[:32]
    try:
        write_atomically(folder / f"{name}.npz", buffer.getvalue())
    except OSError as error:
        _log.warning("%s can't be written (%s); embeddings are not kept", folder, error)


def _trim(root: Path) -> None:
    """Drop the oldest shards until the folder fits ``MAX_BYTES``."""
    shards = sorted(
        (stat.st_mtime_ns, stat.st_size, path) for path in root.glob("*/*.npz") if (stat := path.stat())
    )
    total = sum(size for _, size, _ in shards)
    for _, size, path in shards:
        if total <= MAX_BYTES:
            return
        path.unlink(missing_ok=True)
        total -= size
