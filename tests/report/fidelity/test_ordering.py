"""Kendall's tau against SciPy's, on ties too."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kendalltau

from rbx.report.fidelity.ordering import kendall_tau


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=2, max_size=12))
def test_tau_is_scipys(pairs: list[tuple[int, int]]) -> None:
    a, b = np.array(pairs, dtype=np.float64).T
    ours = float(kendall_tau(a[:, None], b[:, None])[0])
    theirs = float(kendalltau(a, b).statistic)
    assert ours == pytest.approx(theirs, nan_ok=True)
