"""How long the blocks of a moving-block bootstrap must be, from the series themselves.

The rule of Politis and White (2004), corrected by Patton, Politis and White (2009), for circular
blocks: b = (2·G² / D)^(1/3)·n^(1/3), with G = Σ_k w(k/M)·|k|·R(k), D = (4/3)·(Σ_k w(k/M)·R(k))², the
flat-top window w and autocovariances R; M is twice the lag from which on autocorrelations are small.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.fft import irfft, next_fast_len, rfft

from rbx.report.requests import Floats

# Fewer blocks than this tell little of how a statistic varies, however long a series remembers.
FEWEST_BLOCKS = 20
# Autocorrelations below 2·√(log10(n)/n) count as none.
_SMALL = 2.0


def block_length(series: Floats) -> int:
    """The longest length that a column of ``series`` (n, K) asks for, at least 1.

    At most 3·√n, the usual bound, and at most a ``FEWEST_BLOCKS``-th of the series. Columns hold no NaN.
    """
    n = len(series)
    longest = max(1, min(math.ceil(3 * math.sqrt(n)), n // FEWEST_BLOCKS))
    if longest == 1 or not series.size:
        return 1
    asked = (_optimal(_autocovariances(np.ascontiguousarray(column)), n) for column in series.T)
    return int(min(longest, max(1, math.ceil(max(asked)))))


def _autocovariances(column: Floats) -> Floats:
    """R(0) … R(lags) of a column (n,), divided by n at every lag; shape (lags + 1,)."""
    n = len(column)
    lags = min(n - 1, 2 * (math.ceil(math.sqrt(n)) + _run_of_small(n)))
    size = next_fast_len(n + lags, real=True)
    spectrum = rfft(column - column.mean(), n=size)
    return np.asarray(irfft(np.abs(spectrum) ** 2, n=size)[: lags + 1] / n)


def _run_of_small(n: int) -> int:
    return max(5, math.ceil(math.sqrt(math.log10(n))))


def _optimal(covariance: Floats, n: int) -> float:
    if covariance[0] <= 1e-15:
        return 1.0
    reach = 2 * _first_small_lag(covariance / covariance[0], n)
    lag = np.arange(1, min(reach, len(covariance) - 1) + 1)
    window = np.clip(2.0 * (1.0 - lag / max(reach, 1)), 0.0, 1.0)
    weighted = window * covariance[1 : len(lag) + 1]
    spectrum = covariance[0] + 2.0 * weighted.sum()
    curvature = 2.0 * (weighted * lag).sum()
    if spectrum <= 0:
        return float(n)
    return float((2.0 * curvature**2 / (4.0 / 3.0 * spectrum**2)) ** (1 / 3) * n ** (1 / 3))


def _first_small_lag(correlation: Floats, n: int) -> int:
    """The smallest lag that is followed by a run of small autocorrelations alone; else the last large one."""
    run = _run_of_small(n)
    small = np.abs(correlation[1:]) < _SMALL * math.sqrt(math.log10(n) / n)
    counted = np.cumsum(np.concatenate([[0], small]))
    runs = np.flatnonzero(counted[run:] - counted[:-run] == run)
    if len(runs):
        return max(int(runs[0]), 1)
    large = np.flatnonzero(~small)
    return int(large[-1]) + 1 if len(large) else 1
