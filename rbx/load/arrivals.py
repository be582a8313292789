"""Arrival processes: when each request of a workload comes in.

The mean rate λ of every process is ``rate_per_s``. Times are drawn as the process says. Poisson and gamma
arrivals can be stretched so that the last one falls on n/λ (``span: exact``), as vLLM's benchmark client does
and so the experiments of RouteBalance (arXiv 2606.17949): runs of one λ then last as long for every seed, and
the count in a window, and so the queue, is steadier than the process is.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from rbx.config.experiment import (
    Arrivals,
    ConstantArrivals,
    GammaArrivals,
    MmppArrivals,
    PoissonArrivals,
    RandomGaps,
    SquareArrivals,
    TraceArrivals,
)
from rbx.errors import ConfigError
from rbx.load.traces import read_trace

Floats = NDArray[np.float64]

_MOST_CHANGES = 10_000_000
_PHASES_A_TURN = 1024


def arrival_times(spec: Arrivals, rate_per_s: float, n: int, rng: np.random.Generator) -> Floats:
    """Arrival times of ``n`` requests in seconds from 0, shape (n,), nondecreasing.

    ``poisson``, ``gamma``, ``square`` and ``mmpp`` draw from ``rng``; ``constant`` and ``trace`` do not.
    Raises ``ConfigError`` for a rate that is not positive and finite, a negative ``n`` or an ``mmpp`` that
    would change its rate more than ten million times, and ``DatasetError`` for a trace that can't be read.
    """
    if not (math.isfinite(rate_per_s) and rate_per_s > 0):
        raise ConfigError(f"rate_per_s is {rate_per_s}; an arrival rate must be positive and finite")
    if n < 0:
        raise ConfigError(f"n is {n}; a workload can't have a negative number of requests")
    match spec:
        case PoissonArrivals():
            return _spanning(spec, np.cumsum(rng.exponential(1.0 / rate_per_s, n)), rate_per_s)
        case ConstantArrivals():
            return np.arange(n, dtype=np.float64) / rate_per_s
        case GammaArrivals(burstiness=shape):
            times = np.cumsum(rng.gamma(shape, 1.0 / (rate_per_s * shape), n))
            return _spanning(spec, times, rate_per_s)
        case SquareArrivals():
            return _square(spec, rate_per_s, rng.exponential(1.0, n))
        case MmppArrivals():
            return _mmpp(spec, rate_per_s, n, rng)
        case TraceArrivals():
            return _replayed(spec, rate_per_s, n)


def _spanning(spec: RandomGaps, times: Floats, rate_per_s: float) -> Floats:
    """``times`` (n,) as drawn, or stretched by one factor to end on n/λ."""
    if spec.span == "drawn" or not len(times) or times[-1] <= 0.0:
        return times
    stretched: Floats = times * (len(times) / rate_per_s / times[-1])
    return stretched


def _square(spec: SquareArrivals, rate_per_s: float, unit_gaps: Floats) -> Floats:
    """Exact change of time: the k-th arrival is where the integrated rate reaches a unit Poisson's k-th.

    The integrated rate is piecewise linear, low phase first, so it is inverted cycle by cycle.
    """
    low = spec.low_over_mean * rate_per_s
    high = 2.0 * rate_per_s - low
    mass = np.cumsum(unit_gaps)
    cycles, rest = np.divmod(mass, 2.0 * rate_per_s * spec.phase_s)
    low_mass = low * spec.phase_s
    in_low = rest < low_mass
    within = np.where(in_low, rest / (low or 1.0), spec.phase_s + (rest - low_mass) / high)
    times: Floats = cycles * (2.0 * spec.phase_s) + within
    # Rounding at a cycle's edge may undo the order by one ulp.
    return np.maximum.accumulate(times)


def _mmpp(spec: MmppArrivals, rate_per_s: float, n: int, rng: np.random.Generator) -> Floats:
    """Exact two-state Markov-modulated Poisson process, from its stationary state.

    The same change of time as for the square wave, over phases of random length: low lasts
    ``correlation_s / high_share`` in the mean and high ``correlation_s / (1 - high_share)``. Phases and
    arrivals have streams of their own, so one seed has its bursts at the same moments at every rate.
    """
    share, ratio = spec.high_share, spec.rate_ratio
    changes = 2.0 * share * (1.0 - share) / spec.correlation_s * (n / rate_per_s)
    if changes > _MOST_CHANGES:
        raise ConfigError(
            f"workload.arrivals: correlation_s {spec.correlation_s:g} makes the rate of {n:,} requests at "
            f"{rate_per_s:g} requests/s change about {changes:.3g} times, more than {_MOST_CHANGES:,}; raise "
            "it, or take poisson, which is what so fast a change amounts to"
        )
    phases, gaps = rng.spawn(2)
    mass = np.cumsum(gaps.exponential(1.0, n))
    high_first = bool(phases.random() < share)
    mean_s = spec.correlation_s / np.array([share, 1.0 - share])
    low = rate_per_s / (1.0 + share * (ratio - 1.0))
    rates = np.array([low, ratio * low])
    ends_s, ends_mass = [np.zeros(1)], [np.zeros(1)]
    while n and ends_mass[-1][-1] < mass[-1]:
        # An even number of phases a turn keeps the state that each turn starts in.
        state = (np.arange(_PHASES_A_TURN) + high_first) % 2
        lasts_s = phases.exponential(1.0, _PHASES_A_TURN) * mean_s[state]
        ends_s.append(ends_s[-1][-1] + np.cumsum(lasts_s))
        ends_mass.append(ends_mass[-1][-1] + np.cumsum(lasts_s * rates[state]))
    times: Floats = np.interp(mass, np.concatenate(ends_mass), np.concatenate(ends_s))
    return times


def _replayed(spec: TraceArrivals, rate_per_s: float, n: int) -> Floats:
    """The first ``n`` stamps, stretched by one factor so that the whole trace has rate λ.

    A trace of m stamps over a span S is taken to last S·m/(m − 1): one mean gap follows the last
    arrival, which makes its rate (m − 1)/S. A workload longer than the trace wraps around: arrival
    m + i comes one such period after arrival i.
    """
    stamps = read_trace(spec.path, spec.format).arrival_s
    count = len(stamps)
    if count < 2 or stamps[-1] <= 0:
        raise ConfigError(
            f"{spec.path}: {count} arrival(s) with no time between them have no rate to rescale"
        )
    mean_gap_s = stamps[-1] / (count - 1)
    laps, position = np.divmod(np.arange(n), count)
    times: Floats = (stamps[position] / mean_gap_s + laps * count) / rate_per_s
    return times
