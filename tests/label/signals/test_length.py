"""Scores by an answer's length."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rbx.config.labelling import LengthBucketSignal, LengthSignal
from rbx.label.answer import Verdict
from rbx.label.signals.length import length_bucket, length_bucket_signal, length_signal
from tests.label.signals.answers import answered, verdict

SHARE = length_signal(LengthSignal(kind="length", name="share"), 1024)
BUCKET = length_bucket_signal(LengthBucketSignal(kind="length_bucket", name="bucket"), 1024)


@pytest.mark.parametrize(
    ("tokens", "share", "bucket"),
    [
        (0, 0.0, 0),
        (1, 1 / 1024, 0),
        (63, 63 / 1024, 0),
        (64, 1 / 16, 1),
        (512, 0.5, 8),
        (960, 15 / 16, 15),
        (1023, 1023 / 1024, 15),
        (1024, 1.0, 15),
        (5000, 1.0, 15),
    ],
)
def test_share_and_bucket(tokens: int, share: float, bucket: int) -> None:
    answer = answered("x", output_tokens=tokens)
    assert verdict(SHARE, answer) == Verdict(share, "ok")
    assert verdict(BUCKET, answer) == Verdict(bucket / 15, "ok")


def test_without_a_count_there_is_no_score() -> None:
    for signal in (SHARE, BUCKET):
        assert verdict(signal, answered("x", output_tokens=None)) == Verdict(
            None, "missing", "no token count"
        )


@settings(deadline=None)
@given(st.integers(1, 4096), st.integers(2, 64))
def test_buckets_are_steps_of_equal_width(max_tokens: int, buckets: int) -> None:
    counts = [0] * buckets
    for tokens in range(max_tokens):
        counts[length_bucket(tokens, max_tokens, buckets)] += 1
    assert max(counts) - min(counts) <= 1
    assert length_bucket(max_tokens, max_tokens, buckets) == buckets - 1


def test_digests_tell_limits_and_buckets_apart() -> None:
    eight = LengthBucketSignal(kind="length_bucket", name="bucket", buckets=8)
    signals = [
        SHARE,
        BUCKET,
        length_signal(LengthSignal(kind="length", name="share"), 512),
        length_bucket_signal(eight, 1024),
        length_bucket_signal(eight, 512),
    ]
    assert len({signal.digest for signal in signals}) == len(signals)
