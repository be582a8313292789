"""The cache of embeddings: it saves work, survives damage, and stays within its bound."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from rbx.heads import embedding_cache
from rbx.heads.embedding_cache import encode_cached
from tests.heads.conftest import HashEncoder


def test_a_second_run_encodes_only_what_is_new(hash_encoder: HashEncoder) -> None:
    texts = [f"text {i}" for i in range(600)] + ["text 0", "\ud800 odd"]
    first = encode_cached(hash_encoder, texts)
    assert len(hash_encoder.encoded) == 601  # the repeated text once
    np.testing.assert_array_equal(first[0], first[600])
    hash_encoder.encoded.clear()
    again = encode_cached(hash_encoder, [*texts[::-1], "new"])
    assert hash_encoder.encoded == ["new"]
    np.testing.assert_array_equal(again[:-1], first[::-1])
    np.testing.assert_array_equal(again[-1:], HashEncoder().encode(["new"]))


def test_another_encoder_does_not_see_these_vectors(hash_encoder: HashEncoder) -> None:
    encode_cached(hash_encoder, ["text"])
    other = HashEncoder()
    other.digest = "f" * 64
    encode_cached(other, ["text"])
    assert other.encoded == ["text"]


def test_a_damaged_shard_is_encoded_again(
    hash_encoder: HashEncoder, own_cache: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first = encode_cached(hash_encoder, ["one", "two"])
    (shard,) = own_cache.rglob("*.npz")
    shard.write_bytes(shard.read_bytes()[:60])
    np.testing.assert_array_equal(encode_cached(hash_encoder, ["one", "two"]), first)
    assert "is damaged" in caplog.text
    hash_encoder.encoded.clear()
    encode_cached(hash_encoder, ["one", "two"])  # the damaged shard was replaced
    assert hash_encoder.encoded == []


def test_the_oldest_shards_go_first(
    hash_encoder: HashEncoder, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for index in range(4):
        encode_cached(hash_encoder, [f"text {index}"])
        for shard in own_cache.rglob("*.npz"):
            stamp = shard.stat().st_mtime_ns - 10**9
            os.utime(shard, ns=(stamp, stamp))
    size = next(own_cache.rglob("*.npz")).stat().st_size
    monkeypatch.setattr(embedding_cache, "MAX_BYTES", 2 * size)
    encode_cached(hash_encoder, ["text 4"])
    assert len(list(own_cache.rglob("*.npz"))) == 2
    hash_encoder.encoded.clear()
    encode_cached(hash_encoder, ["text 3", "text 4"])
    assert hash_encoder.encoded == []


def test_a_cache_that_can_not_be_written_costs_only_time(
    hash_encoder: HashEncoder, own_cache: Path, caplog: pytest.LogCaptureFixture
) -> None:
    own_cache.parent.mkdir(parents=True, exist_ok=True)
    own_cache.write_text("a file where the folder should be")
    vectors = encode_cached(hash_encoder, ["one", "two"])
    np.testing.assert_array_equal(vectors, HashEncoder().encode(["one", "two"]))
    assert "can't be written" in caplog.text


def test_progress_counts_what_has_to_be_encoded(hash_encoder: HashEncoder) -> None:
    seen: list[tuple[int, int]] = []
    encode_cached(hash_encoder, [f"t {i}" for i in range(40)], lambda _, d, t: seen.append((d, t)))
    assert seen == [(16, 40), (32, 40), (40, 40)]


def test_no_text_gives_no_vector(hash_encoder: HashEncoder) -> None:
    assert encode_cached(hash_encoder, []).shape == (0, 16)
