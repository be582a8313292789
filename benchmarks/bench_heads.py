"""Speed of encoders, nearest-neighbour head and TPOT heads, each against a peer in the same run.

``python -m benchmarks.bench_heads`` prints one line a path; ratio is peer over ours, more is faster.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import onnxruntime
import xgboost

from rbx.engine.telemetry import TPOT_FEATURES
from rbx.heads.encoder import load_encoder
from rbx.heads.knn import KnnHead, Labels
from rbx.heads.neighbours import EPSILON
from rbx.heads.trees import pack, predict_rows
from rbx.heads.vocabulary import WordPieces
from rbx.heads.weights import locate_weights

Row = dict[str, Any]

N_TRAIN, DIM, N_MODELS, K = 14_919, 384, 4, 10
SENTENCE = "Explain in simple terms how a hash table finds a value, and when its lookups get slow. "


def rows() -> list[Row]:
    """All measurements; each is a median over repeats."""
    return [*knn_rows(), *tpot_rows(), *encoder_rows()]


def knn_rows() -> list[Row]:
    """Ours against brute force in numpy: matrix product, argpartition, the same means and histogram."""
    rng = np.random.default_rng(0)
    train = rng.normal(size=(N_TRAIN + 320, DIM)).astype(np.float32)
    train /= np.linalg.norm(train, axis=1, keepdims=True)
    train, queries = train[:N_TRAIN], train[N_TRAIN:]
    score, length = rng.random((N_TRAIN, N_MODELS)), rng.lognormal(5, 1, (N_TRAIN, N_MODELS)) + 1
    head = KnnHead(train, Labels(("a", "b", "c", "d"), score, length), K)

    def brute_force(batch: Any) -> Any:
        cosine = batch @ train.T
        near = np.argpartition(-cosine, K, axis=1)[:, :K]
        weight = 1.0 / (1.0 - np.take_along_axis(cosine, near, axis=1) + EPSILON)[:, :, None]
        known = weight * ~np.isnan(score[near])
        quality = np.sum(known * np.nan_to_num(score[near]), axis=1) / known.sum(axis=1)
        told = weight * ~np.isnan(length[near])
        tokens = np.sum(told * np.nan_to_num(length[near]), axis=1) / told.sum(axis=1)
        bucket = np.minimum(np.nan_to_num(length[near]) // 64, 15)
        histogram = np.sum((bucket[..., None] == np.arange(16)) * told[..., None], axis=1)
        return quality, tokens, histogram / told.sum(axis=1)[..., None]

    out = []
    for size in (1, 8, 32):
        batches = [queries[start : start + size] for start in range(0, len(queries) - size, size)][:20]
        ours, peer = _race(batches, head.predict, brute_force)
        name = f"KNN quality, length, histogram, batch {size}, per request"
        out.append(_row(name, ours / size * 1e3, peer / size * 1e3, "ms", "numpy brute force"))
    return out


def tpot_rows() -> list[Row]:
    """Thirteen instances of four tiers at once against four boosters, one call each."""
    rng = np.random.default_rng(0)
    boosters = []
    for _ in range(4):
        features = rng.random((4000, len(TPOT_FEATURES)))
        target = 0.01 + 0.02 * features[:, 0] + 0.001 * rng.random(4000)
        data = xgboost.DMatrix(features.astype(np.float32), target)
        parameters = {"max_depth": 5, "eta": 0.1, "nthread": 1, "tree_method": "hist", "device": "cpu"}
        boosters.append(xgboost.train(parameters, data, 150))
    trees = pack([bytes(b.save_raw("json")) for b in boosters], np.zeros(4))
    tier = np.array([0, 0, 1, 1, 1, 2, 2, 2, 2, 2, 3, 3, 3])
    owned = [np.flatnonzero(tier == t) for t in range(4)]

    def peer(states: Any) -> list[Any]:
        return [
            booster.inplace_predict(states[mine].astype(np.float32))
            for booster, mine in zip(boosters, owned, strict=True)
        ]

    states = [rng.random((13, len(TPOT_FEATURES))) for _ in range(200)]
    ours, theirs = _race(states, lambda x: predict_rows(trees, x, tier), peer)
    return [
        _row("TPOT heads, 13 instances of 4 tiers", ours * 1e3, theirs * 1e3, "ms", "4 × inplace_predict")
    ]


def encoder_rows() -> list[Row]:
    """The encoder against its bare forward pass, and the static encoder against MiniLM."""
    minilm, static = load_encoder("minilm"), load_encoder("static")
    pieces = WordPieces(256, special=True)
    session = onnxruntime.InferenceSession(str(locate_weights().path), providers=["CPUExecutionProvider"])
    out = []
    for repeats in (3, 13):
        texts = [[f"{index} " + SENTENCE * repeats] for index in range(15)]
        tokens = len(pieces.ids(texts[0])[0])
        inputs = [pieces.ids(text)[0][None, :] for text in texts]

        def bare(position: int, inputs: list[Any] = inputs) -> Any:
            ids = inputs[position]
            feed = {
                "input_ids": ids,
                "attention_mask": np.ones_like(ids),
                "token_type_ids": np.zeros_like(ids),
            }
            return session.run(None, feed)

        def ours(position: int, texts: list[list[str]] = texts) -> Any:
            return minilm.encode(texts[position])

        def cheap(position: int, texts: list[list[str]] = texts) -> Any:
            return static.encode(texts[position])

        encode, forward = _race(list(range(len(texts))), ours, bare)
        out.append(
            _row(f"MiniLM, one text of {tokens} pieces", encode * 1e3, forward * 1e3, "ms", "bare forward")
        )
        light, full = _race(list(range(len(texts))), cheap, ours)
        out.append(
            _row(f"static encoder, one text of {tokens} pieces", light * 1e3, full * 1e3, "ms", "MiniLM")
        )
    return out


def _race(
    arguments: list[Any], ours: Callable[[Any], Any], peer: Callable[[Any], Any]
) -> tuple[float, float]:
    """Median seconds of both over three rounds of blocks.

    A busy machine slows both alike; within a block only one of them runs, because idle threads of the
    other's pool would spin on the same cores for a while.
    """
    times: dict[Callable[[Any], Any], list[float]] = {ours: [], peer: []}
    for _ in range(3):
        for function, taken in times.items():
            function(arguments[0])
            time.sleep(0.05)
            for argument in arguments:
                start_s = time.perf_counter()
                function(argument)
                taken.append(time.perf_counter() - start_s)
    return float(np.median(times[ours])), float(np.median(times[peer]))


def _row(path: str, ours: float, peer: float, unit: str, peer_name: str) -> Row:
    return {
        "path": path,
        "ours": ours,
        "peer": peer,
        "ratio": peer / ours,
        "unit": unit,
        "peer_name": peer_name,
    }


if __name__ == "__main__":
    for row in rows():
        print(
            f"{row['path']:58} {row['ours']:9.3f} {row['unit']}   {row['peer_name']:32} "
            f"{row['peer']:9.3f} {row['unit']}   × {row['ratio']:.2f}"
        )
