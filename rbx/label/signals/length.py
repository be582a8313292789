"""How long an answer is, as a score: of the length that was allowed, or the bucket it falls into."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from rbx.config.base import digest
from rbx.config.labelling import LengthBucketSignal, LengthSignal
from rbx.label.answer import Answer, Verdict, missing
from rbx.label.signals.per_answer import PerAnswer

NO_COUNT = missing("no token count")


def length_share(output_tokens: int, max_tokens: int) -> float:
    """``output_tokens / max_tokens``, at most 1."""
    return min(1.0, output_tokens / max_tokens)


def length_bucket(output_tokens: int, max_tokens: int, buckets: int) -> int:
    """The bucket, from 0, of ``buckets`` equal steps up to ``max_tokens``; longer answers are in the last.

    RouteBalance's length label has 16.
    """
    return min(buckets - 1, output_tokens * buckets // max_tokens)


def length_signal(spec: LengthSignal, max_tokens: int) -> PerAnswer:
    """The signal of ``kind: length``; ``max_tokens`` is the generation's."""
    identity = digest({"kind": "length", "version": 1, "max_tokens": max_tokens})
    return PerAnswer(spec.name, identity, partial(_of_count, partial(length_share, max_tokens=max_tokens)))


def length_bucket_signal(spec: LengthBucketSignal, max_tokens: int) -> PerAnswer:
    """The signal of ``kind: length_bucket``; ``max_tokens`` is the generation's."""
    last = spec.buckets - 1

    def position(output_tokens: int) -> float:
        return length_bucket(output_tokens, max_tokens, spec.buckets) / last

    parts = {"kind": "length_bucket", "version": 1, "max_tokens": max_tokens, "buckets": spec.buckets}
    return PerAnswer(spec.name, digest(parts), partial(_of_count, position))


def _of_count(position: Callable[[int], float], answer: Answer) -> Verdict:
    if answer.output_tokens is None:
        return NO_COUNT
    return Verdict(position(answer.output_tokens), "ok")
