"""Similarity of answer and reference, by a real encoder and by one whose calls are counted."""

from __future__ import annotations

import asyncio
import hashlib
import threading
from collections.abc import Sequence

import numpy as np
import pytest

from rbx.heads.encoder import Embeddings, load_encoder, unit_rows
from rbx.label.answer import Verdict
from rbx.label.signals import similarity
from rbx.label.signals.similarity import Similarity
from tests.label.signals.answers import answered, scored


class Hashed:
    """A vector by a text's hash; ``asked`` lists every text in the order of encoding."""

    name = "hashed"
    dim = 8
    digest = "0" * 64

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.threads: set[int] = set()

    def encode(self, texts: Sequence[str]) -> Embeddings:
        self.asked += texts
        self.threads.add(threading.get_ident())
        rows = [np.frombuffer(hashlib.sha256(text.encode()).digest()[:8], np.uint8) for text in texts]
        return unit_rows(np.array(rows, np.float32) - 127)


TEXTS = [
    ("Paris is the capital of France.", "The capital of France is Paris."),
    ("I like green apples.", "The capital of France is Paris."),
    ("The capital of France is Paris.", "The capital of France is Paris."),
    ("x", "y"),
]


def test_equals_the_cosine_of_the_encoder_and_ranks_by_meaning() -> None:
    encoder = load_encoder("minilm")
    verdicts = scored(Similarity("sim", encoder), [answered(*pair) for pair in TEXTS])
    for (response, reference), verdict in zip(TEXTS, verdicts, strict=True):
        one, other = encoder.encode([response])[0], encoder.encode([reference])[0]
        cosine = float(np.dot(one, other) / (np.linalg.norm(one) * np.linalg.norm(other)))
        assert verdict.score == pytest.approx((cosine + 1) / 2, abs=1e-6)
    same, near, far = verdicts[2].score, verdicts[0].score, verdicts[1].score
    assert same is not None
    assert near is not None
    assert far is not None
    assert same == pytest.approx(1.0, abs=1e-6)
    assert same <= 1.0
    assert same > near > far


def test_a_verdict_does_not_depend_on_its_batch() -> None:
    encoder = load_encoder("minilm")
    answers = [answered(*pair) for pair in TEXTS]
    together = scored(Similarity("sim", encoder), answers)
    alone = [scored(Similarity("sim", encoder), [answer])[0] for answer in answers]
    backwards = scored(Similarity("sim", encoder), answers[::-1])[::-1]
    assert together == alone == backwards


def test_without_a_reference_there_is_no_score_and_nothing_is_encoded() -> None:
    encoder = Hashed()
    answers = [answered("x", reference) for reference in (None, "", " ")]
    assert scored(Similarity("sim", encoder), answers) == [Verdict(None, "missing", "no reference")] * 3
    assert encoder.asked == []


def test_a_reference_is_encoded_once_for_all_models() -> None:
    encoder = Hashed()
    signal = Similarity("sim", encoder)

    async def run() -> list[Verdict]:
        first = await signal.score([answered("one", "ref"), answered("two", "ref")])
        return first + await signal.score([answered("three", "ref")])

    assert len(asyncio.run(run())) == 3
    assert encoder.asked == ["one", "two", "ref", "three"]


def test_the_references_kept_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(similarity, "KEPT_REFERENCES", 2)
    encoder = Hashed()
    signal = Similarity("sim", encoder)
    answers = [answered("x", f"ref {number}") for number in range(5)]

    async def run() -> tuple[list[Verdict], list[Verdict]]:
        return await signal.score(answers), await signal.score(answers[-2:])

    whole, last = asyncio.run(run())
    assert last == whole[-2:]
    assert encoder.asked.count("ref 4") == 1  # still known
    again = scored(signal, answers[:1])
    assert again == whole[:1]
    assert encoder.asked.count("ref 0") == 2  # forgotten, and encoded anew


def test_the_event_loop_goes_on_meanwhile() -> None:
    encoder = Hashed()
    scored(Similarity("sim", encoder), [answered("x", "y")])
    assert encoder.threads
    assert threading.get_ident() not in encoder.threads


def test_the_digest_is_the_encoders_too() -> None:
    other = Hashed()
    other.digest = "1" * 64
    assert Similarity("sim", Hashed()).digest != Similarity("sim", other).digest
