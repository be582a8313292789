"""The static encoder: its arithmetic, its cache, and what it does with odd texts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from rbx.heads import static
from rbx.heads.static import DIM, StaticEncoder, build_table
from rbx.heads.vocabulary import WordPieces, read_vocabulary


class StandInTeacher:
    """A mean state that depends on the piece alone, in 384 numbers, at no cost."""

    def __init__(self) -> None:
        self.calls = 0

    def mean_states(self, ids: NDArray[np.int64]) -> NDArray[np.float32]:
        self.calls += 1
        assert (ids[:, 0] == 101).all()
        assert (ids[:, 2] == 102).all()
        phase = ids[:, 1:2] * np.arange(1, 385) * 0.618034
        states: NDArray[np.float32] = np.sin(phase % 6.2831853).astype(np.float32)
        return states


@pytest.fixture(scope="module")
def table() -> NDArray[np.float32]:
    return build_table(StandInTeacher())  # type: ignore[arg-type]


def test_a_text_is_the_unit_mean_of_its_pieces(table: NDArray[np.float32]) -> None:
    texts = ["a short text", "another, longer text about something else", "a short text"]
    vectors = StaticEncoder(table, "digest").encode(texts)
    for text, vector in zip(texts, vectors, strict=True):
        total = table[WordPieces(512, special=False).ids([text])[0]].astype(np.float64).sum(axis=0)
        np.testing.assert_allclose(vector, total / np.linalg.norm(total), atol=1e-6)
    np.testing.assert_array_equal(vectors[0], vectors[2])


def test_a_text_without_pieces_still_has_a_direction(table: NDArray[np.float32]) -> None:
    vectors = StaticEncoder(table, "digest").encode(["", "\x00", "words"])
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-6)
    np.testing.assert_array_equal(vectors[0], vectors[1])
    assert StaticEncoder(table, "digest").encode([]).shape == (0, DIM)


def test_frequent_pieces_weigh_less(table: NDArray[np.float32]) -> None:
    vocabulary = read_vocabulary()
    frequent = np.linalg.norm(table[[vocabulary.index(word) for word in ("!", '"', "#")]], axis=1)
    rare = np.linalg.norm(table[-200:], axis=1)
    assert frequent.max() < 0.5 * rare.mean()


def test_the_axes_are_those_of_most_variance(table: NDArray[np.float32]) -> None:
    real = np.array([not (w.startswith("[") and w.endswith("]") and len(w) > 2) for w in read_vocabulary()])
    rank = np.arange(1, real.sum() + 1)
    weight = 1e-2 / (1e-2 + 1 / rank / np.sum(1 / rank))
    axes = table[real].astype(np.float64) / weight[:, None]
    np.testing.assert_allclose(axes.mean(axis=0), 0.0, atol=1e-3)
    covariance = np.cov(axes.T)
    variances = np.diag(covariance)
    assert (np.diff(variances) < 1e-6).all()
    off_diagonal = covariance - np.diag(variances)
    assert np.abs(off_diagonal).max() < 1e-3 * variances[0]


def test_the_table_is_built_once_and_again_when_damaged(
    own_cache: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    teacher = StandInTeacher()
    monkeypatch.setattr(static, "MiniLm", lambda: teacher)
    first = static.load_static().encode(["some text"])
    calls = teacher.calls
    assert calls > 0
    np.testing.assert_array_equal(static.load_static().encode(["some text"]), first)
    assert teacher.calls == calls
    (path,) = (own_cache / "static").glob("*.npz")
    damaged = bytearray(path.read_bytes())
    damaged[len(damaged) // 2] ^= 0xFF
    path.write_bytes(damaged)
    np.testing.assert_array_equal(static.load_static().encode(["some text"]), first)
    assert teacher.calls == 2 * calls
    assert "is damaged" in caplog.text


def test_progress_runs_to_the_end() -> None:
    seen: list[tuple[str, int, int]] = []
    build_table(StandInTeacher(), lambda *step: seen.append(step))  # type: ignore[arg-type]
    assert seen[-1] == ("distil static encoder", 30522, 30522)
    assert [done for _, done, _ in seen] == sorted(done for _, done, _ in seen)
