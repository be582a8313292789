"""Who scored a metric: one judge, or the scores of two rulers stand in one column."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

JUDGED = ("ok", "judge_failed")


class Judges(NamedTuple):
    """The judge digests of a metric's judged labels, with the number of labels that each gave."""

    metric: str
    labels_by_digest: dict[str, int]

    @property
    def judged(self) -> int:
        """Labels with a score, or whose judge failed."""
        return sum(self.labels_by_digest.values())

    def __str__(self) -> str:
        """A sentence for a fault: what is mixed, and what to do."""
        parts = ", ".join(
            f"{name[:12] or '(none)'} {count:,}" for name, count in self.labels_by_digest.items()
        )
        return (
            f"labels of {self.metric} come from {len(self.labels_by_digest)} judges, whose scores can't be "
            f"compared: {parts}; give each judge a metric of its own, or label again with one"
        )


def judges_of(labels: pa.Table) -> dict[str, Judges]:
    """By metric, the digests of labels with status ok or judge_failed, the commonest first."""
    judged = labels.filter(pc.is_in(labels["status"], value_set=pa.array(JUDGED)))
    groups = judged.group_by(["metric", "judge_digest"]).aggregate([([], "count_all")]).to_pylist()
    found: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for group in sorted(groups, key=lambda each: (each["metric"], -each["count_all"], each["judge_digest"])):
        found[group["metric"]][group["judge_digest"]] = group["count_all"]
    return {metric: Judges(metric, counts) for metric, counts in found.items()}


def mixed_judges(labels: pa.Table) -> Iterator[Judges]:
    """Metrics whose judged labels carry more than one digest."""
    return (judges for judges in judges_of(labels).values() if len(judges.labels_by_digest) > 1)
