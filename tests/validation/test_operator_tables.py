"""Composition against a card whose operators run exactly at its roofline."""

from __future__ import annotations

from itertools import product

import numpy as np
import pandas as pd
import pytest

from tests.validation.errors import Errors
from tests.validation.operator_tables import L40S, RTX_4090, OperatorTables


def tables_at_the_roofline() -> OperatorTables:
    """Products of the measured shapes, each as fast as the L40S's data sheet allows."""
    sizes, shapes = (1, 64, 512, 2048), (4096, 6144, 16384, 51200)
    rows = []
    for m, n, k in product(sizes, shapes, shapes):
        seconds = L40S.roofline_s(2.0 * m * n * k, 2.0 * (m * k + k * n + m * n))
        rows.append({"m": m, "n": n, "k": k, "latency": 1000 * seconds})
    gemm = pd.DataFrame(rows)
    prefill = pd.DataFrame({"batch_size": [1, 1, 1], "isl": [1, 1024, 4096], "latency": [0.001, 0.1, 1.6]})
    steps = (0, 1023, 4095)
    decode = pd.DataFrame(
        [{"batch_size": b, "step": s, "latency": 1e-6 * b * (s + 1)} for b, s in product((1, 16, 256), steps)]
    )
    return OperatorTables(gemm, prefill, decode)


@pytest.mark.parametrize("tokens", [1, 64, 2048])
@pytest.mark.parametrize(("n", "k"), [(6144, 4096), (4096, 4096), (16384, 51200)])
def test_a_measured_product_takes_the_other_cards_roofline(tokens: int, n: int, k: int) -> None:
    expected = RTX_4090.roofline_s(2.0 * tokens * n * k, 2.0 * (tokens * k + k * n + tokens * n))
    assert tables_at_the_roofline().gemm_s(tokens, n, k) == pytest.approx(expected, rel=1e-9)


def test_sizes_between_measured_ones_are_interpolated() -> None:
    tables = tables_at_the_roofline()
    for n, k in ((28672, 4096), (4096, 14336)):
        expected = RTX_4090.roofline_s(2.0 * 2048 * n * k, 0.0)
        assert tables.gemm_s(2048, n, k) == pytest.approx(expected, rel=1e-9)


def test_a_later_chunk_costs_what_the_whole_prompt_adds() -> None:
    tables = tables_at_the_roofline()
    compute = L40S.flop_per_s / RTX_4090.flop_per_s
    assert tables.prefill_attention_s(4096, 0) == pytest.approx(1.6e-3 * compute)
    assert tables.prefill_attention_s(3072, 1024) == pytest.approx(1.5e-3 * compute)
    assert tables.prefill_attention_s(0, 1024) == 0.0


def test_decode_attention_scales_with_bandwidth() -> None:
    tables = tables_at_the_roofline()
    memory = L40S.bytes_per_s / RTX_4090.bytes_per_s
    assert tables.decode_attention_s(16, 16 * 1024) == pytest.approx(1e-9 * 16 * 1024 * memory)
    assert tables.decode_attention_s(64, 64 * 2048) == pytest.approx(1e-9 * 64 * 2048 * memory)
    assert tables.decode_attention_s(0, 0) == 0.0


def test_errors_are_relative_to_the_recorded_times() -> None:
    found = Errors.of(np.array([1.1, 1.8, 4.4]), np.array([1.0, 2.0, 4.0]))
    assert (found.n, found.spearman) == (3, 1.0)
    assert found.mape == pytest.approx(10.0)
    assert found.bias == pytest.approx(10.0 / 3)
    assert found.absolute_ms == pytest.approx(1000 * 0.7 / 3)
