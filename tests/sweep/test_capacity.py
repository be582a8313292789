"""The measured capacity separates rates that the pool keeps up with from those it does not."""

from __future__ import annotations

from rbx.sweep.capacity import measure_capacity
from tests.sweep.scenes import small_context
from tests.sweep.test_simulate import SHORTEST, run


def test_capacity_lies_between_a_stable_and_an_overloaded_rate() -> None:
    context = small_context(workload={"n_requests": 6000})
    capacity = measure_capacity(context, seed=0)
    waits = {}
    for load in (0.7, 1.5):
        arriving, outcome = run(context, SHORTEST, rate_per_s=load * capacity.rate_per_s)
        ttft_s = outcome.first_token_s - arriving.scheduled_s
        waits[load] = ttft_s[-1000:].mean() / ttft_s[1000:2000].mean()
    assert waits[0.7] < 1.5
    assert waits[1.5] > 2.0


def test_capacity_is_repeatable_and_scales_with_the_seats() -> None:
    few, again, many = (measure_capacity(small_context(seats=seats), seed=0) for seats in (2, 2, 16))
    assert few == again
    assert many.rate_per_s > 1.5 * few.rate_per_s


def test_chance_at_low_rates_does_not_end_the_search() -> None:
    # At two requests a second an arrival window of two minutes sees swings of several per cent.
    rates = [measure_capacity(small_context(), seed=seed).rate_per_s for seed in range(5)]
    assert max(rates) < 1.1 * min(rates)
