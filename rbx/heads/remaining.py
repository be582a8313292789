"""How long an answer still gets: what a bundle keeps to tell it, and how far off each way is.

A running request is guessed by the survivors of its model (``SurvivalTable``), by its prediction, or by its
prediction and a reserve; ``rbx.heads.bea.lengths`` is the rule, and the code, for all three.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rbx.engine import snapshot_columns as snap
from rbx.errors import BundleError
from rbx.heads.bea.lengths import LengthRule, total_tokens, whole_tokens
from rbx.heads.bea.survival import SurvivalTable
from rbx.heads.predictions import Predictions

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

# The median underestimate. Higher quantiles keep memory free for the longest answers, and make everybody
# look busy for longer than they are: waits near saturation are then far too long.
RESERVE_QUANTILE = 0.5
PROGRESS = (0.0, 0.25, 0.5, 0.75)
_NO_CAP = 2**31 - 1


@dataclass(frozen=True)
class RemainingError:
    """Median absolute error of the remaining tokens, when ``progress`` of the true length is done."""

    progress: float
    survivors_tokens: float
    predicted_tokens: float
    reserved_tokens: float


@dataclass(frozen=True)
class RemainingReport:
    """One model's ways to guess the remaining tokens, on its ``n`` test prompts of known length."""

    model: str
    n: int
    reserve_tokens: int
    errors: tuple[RemainingError, ...]


def fit_survival(
    models: Sequence[str], prompt_tokens: Ints, length_tokens: Floats
) -> tuple[SurvivalTable, ...]:
    """One table a model from the training prompts: ``prompt_tokens`` (N,), ``length_tokens`` (N, M).

    Answers of unknown length and empty ones are left out; raises ``BundleError`` for a model without others.
    """
    tables = []
    for column, model in enumerate(models):
        known = np.flatnonzero(length_tokens[:, column] >= 1)
        if len(known) == 0:
            raise BundleError(
                f"{model}: no training prompt has an answer of a token or more; take the model out of the "
                "pool or fill in output_tokens of the grid"
            )
        lengths = length_tokens[known, column].astype(np.int64)
        tables.append(SurvivalTable.fit(np.maximum(prompt_tokens[known], 1), lengths))
    return tuple(tables)


def reserves(left_out_tokens: Floats, length_tokens: Floats) -> tuple[int, ...]:
    """Tokens to add to each model's predictions (N, M): the median of actual − predicted where positive.

    ``left_out_tokens`` are predictions of training prompts from the others. 0 where none was too short.
    """
    residual = length_tokens - left_out_tokens
    columns = [column[column > 0] for column in residual.T]  # NaN, an unknown length, is not above 0
    return tuple(
        int(np.ceil(np.quantile(column, RESERVE_QUANTILE))) if len(column) else 0 for column in columns
    )


def report_remaining(
    predicted: Predictions,
    length_tokens: Floats,
    prompt_tokens: Ints,
    survival: Sequence[SurvivalTable],
    reserve_tokens: Sequence[int],
) -> tuple[RemainingReport, ...]:
    """Errors of each way on test prompts: ``length_tokens`` (P, M) is the truth, NaN where unknown."""
    reports = []
    for column, model in enumerate(predicted.models):
        known = np.flatnonzero(length_tokens[:, column] >= 1)
        rows = np.zeros((len(known), snap.N_REQUEST), dtype=np.int64)
        rows[:, snap.PROMPT] = prompt_tokens[known]
        rows[:, snap.CAP] = _NO_CAP
        rows[:, snap.PREDICTED] = whole_tokens(predicted.length_tokens[known, column])
        truth = length_tokens[known, column].astype(np.int64)
        rules = (
            LengthRule(survival[column]),
            LengthRule(),
            LengthRule(reserve_tokens=reserve_tokens[column]),
        )
        errors = tuple(_errors(progress, rows, truth, rules) for progress in PROGRESS) if len(known) else ()
        reports.append(RemainingReport(model, len(known), reserve_tokens[column], errors))
    return tuple(reports)


def _errors(progress: float, rows: Ints, truth: Ints, rules: Sequence[LengthRule]) -> RemainingError:
    rows[:, snap.GENERATED] = np.floor(progress * truth)
    medians = []
    for rule in rules:
        tables = rule.tables
        guessed = [total_tokens(row, *tables, rule.reserve_tokens, rule.trust_predictions)[0] for row in rows]
        medians.append(float(np.median(np.abs(np.array(guessed) - truth))))
    return RemainingError(progress, *medians)
