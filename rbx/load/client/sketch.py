"""Quantiles of positive numbers in little memory, mergeable, within a known relative error."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

_GROWTH = 1.02
_LOG_GROWTH = math.log(_GROWTH)
LEAST_S = 1e-6


class Sketch:
    """Counts by buckets that grow by 2 %: a quantile is off by at most 1 %; the largest value is exact.

    Values below a microsecond count as one.
    """

    def __init__(self) -> None:
        """Empty."""
        self.buckets: dict[int, int] = {}
        self.count = 0
        self.largest = 0.0

    def add(self, value: float) -> None:
        """Count one value."""
        bucket = math.ceil(math.log(value / LEAST_S) / _LOG_GROWTH) if value > LEAST_S else 0
        self.buckets[bucket] = self.buckets.get(bucket, 0) + 1
        self.count += 1
        if value > self.largest:
            self.largest = value

    def as_json(self) -> dict[str, Any]:
        """All of it, for ``merge`` in another process."""
        return {"buckets": list(self.buckets.items()), "largest": self.largest}

    def merge(self, told: Mapping[str, Any]) -> None:
        """Count all that another one has told."""
        for bucket, count in told["buckets"]:
            self.buckets[bucket] = self.buckets.get(bucket, 0) + count
            self.count += count
        self.largest = max(self.largest, told["largest"])

    def quantile(self, share: float) -> float | None:
        """The value below which ``share`` of all lie (nearest rank); None where there are none."""
        rank = max(1, math.ceil(share * self.count))
        seen = 0
        for bucket in sorted(self.buckets):
            seen += self.buckets[bucket]
            if seen >= rank:
                middle = LEAST_S * _GROWTH**bucket * 2.0 / (1.0 + _GROWTH)
                return min(middle, self.largest)
        return None
