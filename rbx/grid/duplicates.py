"""Prompts of equal text: what is lost when only the first of them stays."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc


def count_disagreeing(
    harvested: pa.Table,
    twin_of_key: Mapping[str, int],
    labels: pa.Table,
    models: Sequence[str],
    metrics: Sequence[str],
) -> int:
    """How many dropped prompts have a score that differs from the same model's on the prompt that stays.

    ``twin_of_key`` maps the key of a dropped prompt to the position of the one that stays; ``labels`` are
    the grid's, in prompt-model-metric order. A score that one of the two lacks is no disagreement.
    """
    rows = harvested.filter(pc.is_in(harvested["key"], value_set=pa.array(twin_of_key, pa.string())))
    kept = labels["score"].to_numpy()
    model_at = {model: at for at, model in enumerate(models)}
    metric_at = {metric: at for at, metric in enumerate(metrics)}
    columns = (rows[name].to_pylist() for name in ("key", "model", "metric", "score"))
    disagreeing = set()
    for key, model, metric, score in zip(*columns, strict=True):
        cell = (twin_of_key[key] * len(models) + model_at[model]) * len(metrics) + metric_at[metric]
        if score is not None and not math.isnan(kept[cell]) and score != kept[cell]:
            disagreeing.add(key)
    return len(disagreeing)
