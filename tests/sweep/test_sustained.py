"""Completions over the second half of the arrival window, against cases counted by hand."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from rbx.sweep.sustained import is_sustained, late_arrivals


@pytest.mark.parametrize(("service_s", "expected"), [(0.1, True), (100.0, False)])
def test_sustained_means_completing_what_arrives(service_s: float, expected: bool) -> None:
    scheduled_s = np.linspace(0.0, 100.0, 1000)
    assert is_sustained(scheduled_s, scheduled_s + service_s) is expected


@pytest.mark.parametrize(("lost", "expected"), [(5, True), (6, False)])
def test_one_in_twenty_may_be_missing_in_the_second_half(lost: int, expected: bool) -> None:
    scheduled_s = np.arange(1.0, 201.0)
    done_s = scheduled_s.copy()
    done_s[:100] = np.nan  # what the first half loses doesn't count
    done_s[150 : 150 + lost] = np.nan
    assert late_arrivals(scheduled_s) == 100
    assert is_sustained(scheduled_s, done_s) is expected


def test_the_order_of_requests_does_not_matter() -> None:
    scheduled_s = np.random.default_rng(0).uniform(0, 100, 1000)
    done_s = scheduled_s + 3.0
    order = np.argsort(scheduled_s)[::-1]
    assert late_arrivals(scheduled_s[order]) == late_arrivals(np.sort(scheduled_s))
    assert is_sustained(scheduled_s[order], done_s[order]) is is_sustained(scheduled_s, done_s) is True


def test_the_rule_can_be_used_without_compiling_the_engine() -> None:
    code = "import sys, rbx.sweep.sustained; sys.exit('numba' in sys.modules or 'pandas' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
