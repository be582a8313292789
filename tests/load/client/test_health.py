"""Quantiles in little memory, and what a run says of its own client."""

from __future__ import annotations

import asyncio
import json
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rbx.load.client.health import client_health
from rbx.load.client.sketch import Sketch
from tests.load.client.sent import Sent, asking, sent
from tests.load.client.test_sending import SHORT
from tests.serve.upstream.streaming_server import Script, streaming

VALUES = st.lists(st.floats(1e-6, 1e5), min_size=1, max_size=200)


@given(VALUES, VALUES, st.sampled_from([0.01, 0.5, 0.9, 0.99, 1.0]))
def test_quantiles_are_off_by_a_hundredth_at_most_also_when_merged(
    here: list[float], there: list[float], share: float
) -> None:
    one, other = Sketch(), Sketch()
    for value in here:
        one.add(value)
    for value in there:
        other.add(value)
    one.merge(json.loads(json.dumps(other.as_json())))
    exact = np.quantile([*here, *there], share, method="inverted_cdf")
    found = one.quantile(share)
    assert found == pytest.approx(exact, rel=0.0101)
    assert one.largest == max(*here, *there)
    assert one.count == len(here) + len(there)


def test_no_value_has_no_quantile_and_nothing_is_below_a_microsecond() -> None:
    sketch = Sketch()
    assert sketch.quantile(0.5) is None
    sketch.add(0.0)
    sketch.add(-1.0)
    assert sketch.quantile(0.5) == 0.0


def words(sent: int, first_s: float, last_s: float, delays_s: list[float]) -> dict[str, object]:
    lags = Sketch()
    lags.add(0.002)
    return {
        **{"sent": sent, "first_sent_s": first_s, "last_sent_s": last_s, "delays_s": delays_s},
        **{"lags": lags.as_json(), "cpu_s": 0.25},
    }


def test_rates_and_delays_are_those_of_all_processes_together() -> None:
    schedule = [0.0, 0.5, 1.0, 1.5, 2.0]
    told = [words(3, 0.0, 2.4, [0.0, 0.1, 0.4]), words(1, 0.5, 0.5, [0.0, 9.0])]
    health = client_health(schedule, told, 1e9)
    assert health.asked_per_s == pytest.approx(2.0)
    assert health.achieved_per_s == pytest.approx(3 / 2.4)
    assert (health.schedule_delay_p50_s, health.schedule_delay_p99_s) == (0.1, 9.0)
    assert health.schedule_delay_max_s == 9.0
    assert (health.sent, health.not_sent, health.processes, health.cpu_s) == (4, 1, 2, 0.5)
    assert health.loop_lag_max_s == 0.002


def test_requests_all_at_once_have_no_rate() -> None:
    health = client_health([0.0, 0.0], [words(2, 0.0, 0.0, [0.0, 0.0])], 1e9)
    assert health.asked_per_s is None
    assert health.achieved_per_s is None


def test_a_client_that_is_too_slow_for_its_schedule_shows_it() -> None:
    """200 requests/s asked, with 20 ms of work of the client's own at each (vllm 21104)."""

    async def run() -> Sent:
        async with streaming(lambda _: Script(SHORT)) as served:
            requests = [asking(number, number / 200.0) for number in range(60)]
            return await sent(served.url, requests, each=lambda _: time.sleep(0.02))

    done = asyncio.run(run())
    sending = done.sending
    assert sorted(sending.delays_s)[30] > 0.02  # it sends several at once when it gets to it
    for number, result in done.results.items():
        assert result.status == "ok"
        assert result.first_token_s is not None
        assert result.first_token_s - number / 200.0 >= sending.delays_s[number] - 1e-5
