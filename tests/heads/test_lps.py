"""Closed forms against an event simulation of the queue, and against the engine."""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.random import Generator
from numpy.typing import NDArray

from rbx.config.pool import Tier
from rbx.engine.instance_profile import InstanceProfile
from rbx.engine.simulator import EngineSim
from rbx.errors import EngineError
from rbx.heads.lps import Traffic, engine_lps, lps_wait_s, service_rates_per_s, slots_of
from tests.engine.scenes import priced_by, tier

Floats = NDArray[np.float64]
SEEDS = 8


def simulate(arrival_s: Floats, sizes: Floats, slots: int, speed: Callable[[int], float]) -> float:
    """Mean wait before service when n jobs share ``speed(n)`` evenly and at most ``slots`` are in."""
    arrivals, waiting = (
        deque(zip(arrival_s.tolist(), sizes.tolist(), strict=True)),
        deque[tuple[float, float]](),
    )
    now, served, waits = 0.0, 0.0, []  # ``served``: work that a job in service all along has got
    ends: list[float] = []
    while arrivals or ends:
        share = speed(len(ends)) / len(ends) if ends else 0.0
        end_s = now + (ends[0] - served) / share if ends else math.inf
        if arrivals and arrivals[0][0] <= end_s:
            served += share * (arrivals[0][0] - now)
            now = arrivals[0][0]
            waiting.append(arrivals.popleft())
        else:
            served, now = heapq.heappop(ends), end_s
        if waiting and len(ends) < slots:
            at_s, size = waiting.popleft()
            waits.append(now - at_s)
            heapq.heappush(ends, served + size)
    return float(np.mean(waits[len(waits) // 10 :]))


def mean_and_error(
    draw: Callable[[Generator, int], Floats], rate: float, slots: int, speed: Callable[[int], float], n: int
) -> tuple[float, float]:
    results = []
    for seed in range(SEEDS):
        rng = np.random.default_rng([seed, slots])
        arrival_s = np.cumsum(rng.exponential(1.0 / rate, n))
        results.append(simulate(arrival_s, draw(rng, n), slots, speed))
    return float(np.mean(results)), float(np.std(results, ddof=1) / math.sqrt(SEEDS))


def exponential(rng: Generator, n: int) -> Floats:
    return rng.exponential(1.0, n)


def constant(rng: Generator, n: int) -> Floats:
    return np.ones(n)


def two_phase(rng: Generator, n: int) -> Floats:
    """Hyperexponential of mean 1 and squared coefficient of variation 4 (balanced means)."""
    p = 0.5 * (1.0 + math.sqrt(3.0 / 5.0))
    mean = np.where(rng.random(n) < p, 0.5 / p, 0.5 / (1.0 - p))
    return np.asarray(rng.exponential(1.0, n) * mean)


@pytest.mark.parametrize(
    ("draw", "cv2", "rate", "slots", "tolerance"),
    [
        (exponential, 1.0, 0.8, 1, 0.0),
        (exponential, 1.0, 0.8, 4, 0.0),
        (exponential, 1.0, 0.9, 10, 0.0),
        (constant, 0.0, 0.8, 1, 0.0),
        (two_phase, 4.0, 0.7, 1, 0.0),
        (constant, 0.0, 0.9, 4, 0.05),  # between k = 1 and ∞ the general form is an approximation
        (two_phase, 4.0, 0.8, 4, 0.08),
    ],
)
def test_the_closed_forms_agree_with_an_event_simulation(
    draw: Callable[[Generator, int], Floats], cv2: float, rate: float, slots: int, tolerance: float
) -> None:
    mean, error = mean_and_error(draw, rate, slots, lambda n: 1.0, 20_000)
    expected = lps_wait_s(rate, 1.0, slots, cv2)
    assert error < 0.2 * expected, "the simulation is too short to tell"
    assert abs(mean - expected) < 4.0 * error + tolerance * expected


def test_service_rates_that_rise_with_the_batch_agree_with_an_event_simulation() -> None:
    server, traffic = InstanceProfile.of(llm(max_num_seqs=12)), Traffic(20.0, 60.0)
    rates = service_rates_per_s(server, traffic, 12)
    rate = 0.9 * float(rates[-1])
    mean, error = mean_and_error(exponential, rate, 12, lambda n: float(rates[n - 1]), 20_000)
    expected = engine_lps(server, traffic, rate).wait_s
    assert error < 0.2 * expected
    assert abs(mean - expected) < 4.0 * error
    constant_rate = lps_wait_s(rate, float(rates[-1]), 12)
    assert abs(mean - constant_rate) > 4.0 * error, "a constant rate would have done"


def llm(**limits: Any) -> Tier:
    values = {"max_model_len": 2048, "kv_blocks": 100_000, "max_num_batched_tokens": 2048, **limits}
    return tier(b0_s=0.008, b1_s=1e-4, b2_s=1e-7, b3_s=1e-9, **values)


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize(("load", "within"), [(0.5, 0.1), (0.8, 0.1), (0.95, 0.2)])
def test_the_state_dependent_form_agrees_with_the_engine(
    asynchronous: bool, load: float, within: float
) -> None:
    server = llm(max_num_seqs=24, async_scheduling=asynchronous)
    profile, traffic = InstanceProfile.of(server), Traffic(100.0, 80.0)
    capacity = float(service_rates_per_s(profile, traffic, slots_of(server.limits, traffic))[-1])
    n, rate, ttft = 100_000, load * capacity, []
    for seed in range(SEEDS):
        rng = np.random.default_rng(seed)
        engine = EngineSim([server], n)
        at_s = np.cumsum(rng.exponential(1.0 / rate, n))
        output = np.minimum(rng.geometric(1.0 / 80.0, n), 1900)
        engine.submit_many(np.zeros(n, int), at_s, np.full(n, 100), output, output)
        engine.drain()
        ttft.append(float((engine.first_token_s - at_s)[n // 10 :].mean()))
    assert engine_lps(profile, traffic, rate).ttft_s == pytest.approx(np.mean(ttft), rel=within)


def test_an_unstable_queue_has_no_mean() -> None:
    profile = InstanceProfile.of(llm())
    assert lps_wait_s(2.0, 2.0, 8) == math.inf
    assert lps_wait_s(3.0, 2.0, 8, cap_s=60.0) == 60.0
    assert lps_wait_s(1.9999, 2.0, 1, cap_s=60.0) == 60.0
    estimate = engine_lps(profile, Traffic(100.0, 100.0), 1e4)
    assert (estimate.wait_s, estimate.ttft_s, estimate.in_service) == (math.inf, math.inf, 64.0)
    assert engine_lps(profile, Traffic(100.0, 100.0), 1e4, cap_s=60.0).ttft_s == 60.0


def test_the_cache_limits_how_many_are_in_service() -> None:
    limits = llm(kv_blocks=128, block_size=16).limits
    assert slots_of(limits, Traffic(100.0, 100.0)) == 10  # 2048 tokens, 200 a request
    assert slots_of(limits, Traffic(100.0, 100.0, output_cv2=0.0)) == 13
    assert slots_of(limits, Traffic(1900.0, 400.0)) == 1


def test_a_lone_query_waits_for_its_own_prefill_only() -> None:
    profile = InstanceProfile.of(llm(max_num_batched_tokens=128))
    estimate = engine_lps(profile, Traffic(300.0, 50.0), 1e-6)
    assert estimate.ttft_s == pytest.approx(3 * 0.008 + 300e-4 + 1e-9 * 300 * 301 / 2, rel=1e-3)


@pytest.mark.parametrize("feature_set", ["A", "B", "C"])
@pytest.mark.parametrize("budget", [128, 2048])
def test_a_lone_query_takes_what_the_engine_says_under_every_feature_set(
    feature_set: str, budget: int
) -> None:
    rng, charged = np.random.default_rng(0), 0
    for _ in range(20):
        server = priced_by(llm(max_num_batched_tokens=budget), feature_set, rng, exact=False)
        profile = InstanceProfile.of(server)
        engine = EngineSim([server], 1)
        engine.submit(0, 0.0, 300, 50, 50, True)
        engine.drain()
        first_s, done_s = float(engine.first_token_s[0]), float(engine.done_s[0])
        traffic = Traffic(300.0, 50.0, 0.0)
        assert engine_lps(profile, traffic, 1e-9).ttft_s == pytest.approx(first_s, rel=1e-6)
        # One in service: a request takes its prefill's chunks beyond one step, and a step a token.
        extra_s = (math.ceil(300 / budget) - 1) * server.step_time.b0_s
        alone = float(service_rates_per_s(profile, traffic, 1)[0])
        assert 1.0 / alone == pytest.approx(done_s - extra_s, rel=2e-3)
        charged += profile.coefficients.as_b[5] > 0.0
    assert feature_set == "C" or charged > 5


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"arrival_per_s": 0.0}, "arrival_per_s is 0.0"),
        ({"arrival_per_s": math.nan}, "arrival_per_s is nan"),
        ({"service_per_s": -1.0}, "service_per_s is -1.0"),
        ({"service_per_s": math.inf}, "service_per_s is inf"),
        ({"slots": 0}, "slots is 0"),
        ({"size_cv2": -0.1}, "size_cv2 is -0.1"),
        ({"cap_s": math.nan}, "cap_s is nan"),
    ],
)
def test_inputs_out_of_range_are_refused_by_name(change: dict[str, Any], words: str) -> None:
    good = {"arrival_per_s": 1.0, "service_per_s": 2.0, "slots": 4}
    with pytest.raises(EngineError, match=words):
        lps_wait_s(**{**good, **change})


def test_traffic_out_of_range_is_refused_by_name() -> None:
    with pytest.raises(EngineError, match="output_tokens is 0"):
        Traffic(1.0, 0.0)
    with pytest.raises(EngineError, match="output_cv2 is nan"):
        Traffic(1.0, 1.0, math.nan)
