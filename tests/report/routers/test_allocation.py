from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from rbx.heads.routers.task import RouterTask
from rbx.report.routers.allocation import (
    BEST_SINGLE,
    ORACLE,
    PER_SOURCE,
    RANDOM,
    best_single,
    per_source_best,
    references,
    routed,
)
from rbx.report.routers.contender import all_contenders
from rbx.report.routers.population import Material


def test_random_is_the_mean_over_models_with_nothing_drawn(material: Material) -> None:
    people = material.population
    found = {each.label: each for each in references(material)}[RANDOM]
    assert found.gained(people) == pytest.approx(people.score.mean(axis=1))
    assert found.paid_usd(people) == pytest.approx(people.cost_usd.mean(axis=1), nan_ok=True)
    assert found.hits(people) == pytest.approx(people.is_best.mean(axis=1))


def test_no_router_is_above_the_oracle_or_below_the_worst_on_any_prompt(material: Material) -> None:
    people = material.population
    known = {each.label: each for each in references(material)}
    best, worst = known[ORACLE].gained(people), people.score.min(axis=1)
    assert best == pytest.approx(people.score.max(axis=1))
    routers = [routed(contender, material) for contender in all_contenders(material)]
    assert len(routers) >= 10
    for allocation in (*routers, *known.values()):
        gained = allocation.gained(people)
        assert (gained <= best + 1e-12).all()
        assert (gained >= worst - 1e-12).all()
        assert allocation.weights.sum(axis=1) == pytest.approx(np.ones(people.n))


def test_the_oracle_takes_the_cheapest_of_the_best(material: Material) -> None:
    people = material.population
    oracle = {each.label: each for each in references(material)}[ORACLE]
    for row in np.flatnonzero(~np.isnan(people.cost_usd[:, 0])):
        best = [k for k in range(3) if people.score[row, k] == people.score[row].max()]
        cheapest = min(best, key=lambda k: people.cost_usd[row, k])
        assert oracle.weights[row].argmax() == cheapest


def test_the_best_single_model_is_chosen_on_training_labels(material: Material) -> None:
    task = material.task
    assert best_single(task) == int(np.nanmean(task.score, axis=0).argmax())
    level = replace(task, score=np.full_like(task.score, 0.5))
    assert best_single(level) == int(np.nanmean(task.cost_usd, axis=0).argmin())
    shown = {each.label: each for each in references(material)}[BEST_SINGLE]
    assert set(shown.weights.argmax(axis=1).tolist()) == {best_single(task)}


def test_the_best_of_each_source_is_chosen_on_its_training_labels(material: Material) -> None:
    task, people = material.task, material.population
    choices = per_source_best(task, people)
    sources = np.array(task.sources)
    for source in people.sources:
        expected = np.nanmean(task.score[sources == source], axis=0)
        for choice in choices[people.prompt_sources == source]:
            assert expected[choice] == expected.max()
    assert len(set(choices.tolist())) > 1
    assert PER_SOURCE in {each.label for each in references(material)}


def test_a_source_that_training_does_not_know_gets_the_best_single_model(material: Material) -> None:
    task = material.task
    poetry = np.array(task.sources) == "poetry"
    without: RouterTask = task.rows(np.flatnonzero(~poetry).astype(np.int64))
    choices = per_source_best(without, material.population)
    asked = material.population.prompt_sources == "poetry"
    assert asked.any()
    assert set(choices[asked].tolist()) == {best_single(without)}
