"""Models run text by text: the same bits on all cores, on one, and beside others."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from rbx.heads.minilm import MiniLm
from rbx.heads.text_by_text import TextByText, on_one_core
from rbx.heads.weights import locate_weights

TEXTS = [" ".join(["river", "mill", "house", "seven"] * k) for k in (1, 3, 9, 20, 2, 40)]


def test_threads_side_by_side_on_a_core_each_give_the_same_bits() -> None:
    encoder = MiniLm(threads=2)
    together = encoder.encode(TEXTS)
    alone = np.concatenate([encoder.encode([text]) for text in TEXTS])
    with ThreadPoolExecutor(3, initializer=on_one_core) as threads:
        beside = np.concatenate(list(threads.map(lambda text: encoder.encode([text]), TEXTS)))
        many = threads.submit(encoder.encode, TEXTS).result()
    assert together.shape == (6, 384)
    for found in (alone, beside, many):
        assert np.array_equal(found, together)


def test_only_such_threads_leave_the_other_cores() -> None:
    runs = TextByText(lambda: str(locate_weights().path), threads=2)

    def is_on_one_core() -> bool:
        (found,) = runs.map(lambda session, _: session is runs.single, ["a lone text"])
        return bool(found)

    with ThreadPoolExecutor(1, initializer=on_one_core) as thread:
        assert thread.submit(is_on_one_core).result()
    assert not is_on_one_core()
