from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from rbx.errors import BundleError, DatasetError
from rbx.heads.bundle import Bundle
from rbx.report.routers.population import Material, gather
from tests.report.routers.made_up import pool, view


def with_labels_gone(material: Material, rows: int) -> Material:
    """The first test prompts lose one label each."""
    grid = material.view
    score = grid.score.copy()
    score[grid.rows("test")[:rows], 1] = np.nan
    return gather(material.bundle, replace(grid, score=score), pool())


def test_prompts_without_every_label_are_left_out_and_never_count_as_zero(material: Material) -> None:
    before = material.population
    after = with_labels_gone(material, 6).population
    assert after.n == before.n - 6
    assert after.n_test == before.n_test
    assert after.coverage == pytest.approx((before.n - 6) / before.n_test)
    kept = [before.prompt_ids.index(each) for each in after.prompt_ids]
    assert np.array_equal(after.score, before.score[kept])
    assert not np.isnan(after.score).any()


def test_an_unknown_length_leaves_the_prompt_out_of_costs_alone(material: Material) -> None:
    grid = material.view
    row = int(grid.rows("test")[0])
    length = grid.output_tokens.copy()
    length[row, 0] = np.nan
    people = gather(material.bundle, replace(grid, output_tokens=length), pool()).population
    at = people.prompt_ids.index(grid.prompt_ids[row])
    assert people.n == material.population.n
    assert people.n_priced == material.population.n_priced - 1
    assert np.isnan(people.cost_usd[at]).all()


def test_costs_are_tokens_at_the_pools_prices(material: Material) -> None:
    people, grid = material.population, material.view
    at = grid.prompt_ids.index(people.prompt_ids[0])
    large = grid.models.index("large")
    expected = (grid.input_tokens[at] * 0.8 + grid.output_tokens[at, large] * 1.6) / 1e6
    assert people.models[0] == "large"
    assert people.cost_usd[0, 0] == pytest.approx(expected)


def test_a_grid_in_which_nothing_is_complete_is_refused(material: Material) -> None:
    with pytest.raises(DatasetError, match=r"none of its \d+ test prompts has a score"):
        with_labels_gone(material, material.population.n_test)


def test_another_grid_is_refused(material: Material) -> None:
    bundle: Bundle = material.bundle
    with pytest.raises(BundleError, match="train a bundle on that grid"):
        gather(bundle, replace(view(), digest="cd" * 32), pool())
