"""What an answer is worth that was cut short of the text that its label is of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rbx.config.experiment import Experiment
from rbx.errors import DatasetError
from rbx.grid.schema import GridView
from rbx.grid.store import read_tables
from rbx.grid.zeroeval import RULE_DIGEST
from rbx.grid.zeroeval_rule import GRADED_SOURCES, final_answer, grade
from rbx.sweep.context import SweepContext
from rbx.sweep.prompts import PromptTable
from rbx.sweep.simulate import Outcome

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

_INSTEAD = "take workload.cut_quality_exponent, a model, or leave cut answers unscored"


class GradedAgain(NamedTuple):
    """``answered_tokens`` as ``PromptTable`` has them; ``noted`` goes into the manifest."""

    answered_tokens: Floats | None
    noted: Mapping[str, Any]


def cut_worth(context: SweepContext, prompt: Ints, outcome: Outcome) -> tuple[str, Floats]:
    """What is left of each request's label were its answer cut, (N,), NaN where nobody knows, and how the
    records call that: ``modelled`` by its share of the recorded tokens, or ``rescored``: the label from
    ``answered_tokens`` on, and below zero, a verified failure."""
    model = context.shape.model[outcome.instance]
    label: Floats = context.prompts.score[prompt, model]
    answered, exponent = context.prompts.answered_tokens, context.experiment.workload.cut_quality_exponent
    if answered is not None:
        needed = answered[prompt, model]
        left = np.where(outcome.output_tokens >= needed, label, 0.0)
        return "rescored", np.where(np.isfinite(needed) & np.isfinite(label), left, np.nan)
    if exponent is None:
        return "", np.full(len(prompt), np.nan)
    share = outcome.output_tokens / np.maximum(outcome.wanted_tokens, 1)
    return "modelled", label * share**exponent


def grade_again(experiment: Experiment, view: GridView, rows: Ints, prompts: PromptTable) -> GradedAgain:
    """Find where in each recorded text its final answer stands; nothing where the workload does not ask.

    A text cut to d of its w recorded tokens is taken to be its first ⌊length · d / w⌋ characters: borders of
    tokens are not recorded. Where the grader does not give the label of the full text, what a part of it
    would have scored is not known. Raises ``DatasetError`` for a grid without texts, and for labels or
    sources that no rule here gives.
    """
    if experiment.workload.cut_quality is None:
        return GradedAgain(None, {})
    manifest, tables = read_tables(experiment.grid)
    metric = manifest.metric_called(experiment.workload.scored_by or experiment.workload.metric)
    where = f"grid {view.name}: workload.cut_quality: rescore"
    named = ("prompt_id", "model", "response")
    answers = zip(*(tables.responses[name].to_pylist() for name in named), strict=True)
    texts = {(key, model): response for key, model, response in answers}
    if not any(texts.values()):
        raise DatasetError(f"{where}: the grid holds no answers' texts; {_INSTEAD}")
    _check_rule(tables.labels, metric, {view.sources[row] for row in rows}, where)
    columns = (tables.prompts[name].to_pylist() for name in ("prompt_id", "reference", "source"))
    asked = {key: (reference, source) for key, reference, source in zip(*columns, strict=True)}
    answered = np.full(prompts.score.shape, np.nan)
    for p, key in enumerate(prompts.prompt_ids):
        reference, source = asked[key]
        for m, model in enumerate(prompts.models):
            text, label = texts.get((key, model)), prompts.score[p, m]
            if text is not None and reference is not None and grade(text, reference, source) == label:
                answered[p, m] = tokens_until(text, int(prompts.output_tokens[p, m]))
    labels, agreeing = int(np.isfinite(prompts.score).sum()), int(np.isfinite(answered).sum())
    return GradedAgain(answered, {"graded_again": {"labels": labels, "agreeing": agreeing}})


def tokens_until(text: str, tokens: int) -> int:
    """The fewest of ``tokens`` whose share of ``text`` holds its final answer; all where it has none."""
    found = final_answer(text)
    return tokens if found is None else -(-found.end * tokens // len(text))


def _check_rule(labels: pa.Table, metric: str, sources: set[str], where: str) -> None:
    of_metric = labels.filter(pc.equal(labels["metric"], metric))
    if set(of_metric["judge_digest"].to_pylist()) != {RULE_DIGEST}:
        raise DatasetError(
            f"{where}: labels of {metric} were not made by the rule of ZeroEval's grids, the only one that "
            f"can grade a part of an answer here; {_INSTEAD}"
        )
    if other := sorted(sources - GRADED_SOURCES):
        raise DatasetError(
            f"{where}: no rule grades answers of {', '.join(other)}; keep workload.sources to some of "
            f"{', '.join(sorted(GRADED_SOURCES))}, or {_INSTEAD}"
        )
