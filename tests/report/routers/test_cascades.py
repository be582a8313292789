from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest
from numpy.typing import NDArray

from rbx.grid.answers import Answers
from rbx.heads.routers.cascade.router import Cascade
from rbx.heads.routers.cascade.scorer import AnswerScorer
from rbx.report.routers.allocation import best_single, references
from rbx.report.routers.cascades import BUDGETS, cascades
from rbx.report.routers.population import Material
from rbx.report.routers.price_vectors import priced
from rbx.report.routers.routed_quality import rate_allocations
from tests.report.routers.conftest import QUICK


@dataclass(frozen=True)
class Told(Cascade):
    """A cascade whose answers are the labels themselves: it stops at the first right one."""

    def answer_scores(self, prompts: Sequence[str], answers: Answers) -> NDArray[np.float64]:
        return np.array([[float(text or "nan") for text in row] for row in answers])


@pytest.fixture
def asking(material: Material) -> Material:
    task, people = material.task, material.population
    known = np.flatnonzero(~np.isnan(task.cost_usd).any(axis=1) & ~np.isnan(task.score).any(axis=1))
    head = Told(
        models=task.models,
        scorer=AnswerScorer("answer", np.zeros((1, 1)), np.zeros(1)),
        answer_score=task.score[known] + 0.001 * np.random.default_rng(0).random((len(known), 3)),
        labels=task.score[known],
        input_tokens=task.input_tokens[known].astype(np.float64),
        output_tokens=task.output_tokens[known],
        price_in_usd=task.price_in_usd,
        price_out_usd=task.price_out_usd,
        encoder_digest="",
        errors={},
    )
    said = tuple(tuple(str(score) for score in row) for row in people.score.tolist())
    bundle = replace(material.bundle, routers={"cascade": head})
    return replace(material, bundle=bundle, population=replace(people, answers=said))


def test_every_model_asked_on_the_way_is_paid_and_the_last_answer_counts(asking: Material) -> None:
    people = asking.population
    found = cascades(asking)
    assert len(found) == len(BUDGETS)
    for allocation in found:
        assert allocation.asked is not None
        assert (allocation.asked >= allocation.weights).all()
        paid = np.array(
            [cost[asked > 0].sum() for cost, asked in zip(people.cost_usd, allocation.asked, strict=True)]
        )
        assert allocation.paid_usd(people) == pytest.approx(paid, nan_ok=True)
        ends = allocation.weights.argmax(axis=1)
        assert allocation.gained(people) == pytest.approx(people.score[np.arange(people.n), ends])


def test_who_knows_which_answers_are_right_beats_every_single_model(asking: Material) -> None:
    rows = rate_allocations([*cascades(asking), *references(asking)], asking.population, QUICK)
    best = max((row for row in rows if row.kind == "router"), key=lambda row: row.quality.value)
    singles = [row.quality.value for row in rows if row.kind == "single"]
    assert best.quality.value > max(singles)
    single_usd = float(np.nanmean(asking.task.cost_usd[:, best_single(asking.task)]))
    cheap = next(row for row in rows if row.label == f"cascade b${float(f'{single_usd / 4:.3g}'):g}")
    assert cheap.cost_usd.value < best.cost_usd.value


def test_without_texts_of_answers_there_is_no_cascade(asking: Material) -> None:
    silent = replace(asking, population=replace(asking.population, answers=None))
    assert cascades(silent) == ()


def test_where_answers_are_free_the_cascade_is_judged_by_quality_alone(asking: Material) -> None:
    """Shares of a budget of nothing are no budgets."""
    nothing = np.zeros_like(asking.task.price_in_usd)
    task = replace(asking.task, price_in_usd=nothing, price_out_usd=nothing)
    pool = priced(asking.pool, dict.fromkeys(asking.pool.models, (0.0, 0.0)))
    (found,) = cascades(replace(asking, task=task, pool=pool))
    singles = [allocation.gained(asking.population).mean() for allocation in references(asking)[-3:]]
    assert found.label == "cascade λ0"
    assert found.gained(asking.population).mean() > max(singles)
