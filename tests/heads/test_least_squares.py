"""Reduced least-squares problems against the problems themselves."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rbx.heads.step_time.fit import nonnegative_fit
from rbx.heads.step_time.least_squares import BlockSums, triangle


def rows_of(n: int, rng: np.random.Generator) -> np.ndarray:
    """Columns of a step-time model with a constant, sizes eight decades apart, and a target."""
    tokens = rng.integers(0, 3, n) * rng.integers(1, 2000, n)
    columns = np.column_stack([np.ones(n), tokens, rng.integers(0, 64, n), tokens.astype(float) ** 2])
    return np.column_stack([columns, columns @ [8e-3, 2e-5, 1e-4, 6e-9] * rng.lognormal(0, 0.1, n)])


@settings(max_examples=40, deadline=None)
@given(n=st.integers(1, 5000), seed=st.integers(0, 2**32 - 1))
def test_a_triangle_has_the_products_of_all_rows(n: int, seed: int) -> None:
    rows = rows_of(n, np.random.default_rng(seed))
    reduced = triangle(rows)
    assert len(reduced) <= 5
    length = np.linalg.norm(rows, axis=0) + 1e-300
    np.testing.assert_allclose(
        (reduced / length).T @ (reduced / length), (rows / length).T @ (rows / length), atol=1e-12
    )


@settings(max_examples=40, deadline=None)
@given(blocks=st.integers(1, 40), seed=st.integers(0, 2**32 - 1))
def test_sums_fit_as_the_rows_drawn_do(blocks: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    block = np.sort(rng.integers(0, blocks, 900))
    rows = rows_of(900, rng)
    sums = BlockSums(rows, block)
    names = np.unique(block)
    assert sums.blocks == len(names)
    drawn = rng.integers(0, len(names), len(names))
    reduced = sums.of(np.bincount(drawn, minlength=len(names)).astype(np.float64))
    plain = np.concatenate([rows[block == names[at]] for at in drawn])
    found, expected = (
        nonnegative_fit(given[:, :-1], given[:, -1], np.ones(len(given))) for given in (reduced, plain)
    )
    scale = np.abs(plain[:, :-1]).max(axis=0)
    np.testing.assert_allclose(found * scale, expected * scale, rtol=1e-6, atol=1e-9)


def test_columns_that_nearly_coincide_lose_nothing() -> None:
    rng = np.random.default_rng(0)
    base = rng.uniform(1.0, 2.0, 4000)
    rows = np.column_stack([np.ones(4000), base, base * (1.0 + 1e-7 * rng.standard_normal(4000))])
    rows = np.column_stack([rows, rows @ [1.0, 2.0, 3.0]])
    reduced = BlockSums(rows, np.arange(4000) // 100).of(np.ones(40))
    # Products of such columns, added up as they are, would keep one or two digits of the difference.
    solved, *_ = np.linalg.lstsq(reduced[:, :-1], reduced[:, -1], rcond=None)
    np.testing.assert_allclose(solved, [1.0, 2.0, 3.0], rtol=1e-5)


def test_a_column_absent_from_the_blocks_drawn_is_absent() -> None:
    rng = np.random.default_rng(1)
    rows = rows_of(400, rng)
    block = np.arange(400) // 100
    rows[block < 3, 1] = 0.0
    reduced = BlockSums(rows, block).of(np.array([2.0, 1.0, 1.0, 0.0]))
    assert (reduced[:, 1] == 0.0).all()
    assert nonnegative_fit(reduced[:, :-1], reduced[:, -1], np.ones(len(reduced)))[1] == 0.0


@pytest.mark.parametrize("constant", [0.0, 1.0])
def test_columns_without_a_difference_are_no_fault(constant: float) -> None:
    rows = np.column_stack([np.ones(50), np.full(50, constant), np.full(50, 0.25)])
    reduced = BlockSums(rows, np.arange(50) // 10).of(np.ones(5))
    fitted = nonnegative_fit(reduced[:, :-1], reduced[:, -1], np.ones(len(reduced)))
    assert fitted[0] + constant * fitted[1] == pytest.approx(0.25)


def test_fewer_rows_than_columns_are_a_problem_too() -> None:
    rows = rows_of(2, np.random.default_rng(3))
    reduced = BlockSums(rows, np.arange(2)).of(np.array([1.0, 3.0]))
    plain = rows[[0, 1, 1, 1]]
    np.testing.assert_allclose(reduced.T @ reduced, plain.T @ plain, rtol=1e-9)
