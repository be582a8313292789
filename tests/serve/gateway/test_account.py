"""Costs by counts of the server's, as far as these can be."""

from __future__ import annotations

import math

import pytest

from rbx.serve.exchange import Piece, Usage
from rbx.serve.gateway.account import Account
from tests.serve.gateway.serving import config, serving


def account(budget_usd: float = math.inf) -> Account:
    """An estimate of 10 tokens, a cap of 50 and a context of 1000, at 1 and 2 USD a token."""
    return Account(1.0, 2.0, budget_usd, 10, 50, 50, 1000)


@pytest.mark.parametrize(
    ("usage", "cost_usd", "disbelieved"),
    [
        (None, 10 + 2, False),
        (Usage(12, 20), 12 + 40, False),
        (Usage(12, 51), 12 + 102, False),  # an end token may have been counted
        (Usage(1000, 1), 1000 + 2, False),
        (Usage(1001, 20), 10 + 40, True),
        (Usage(0, 20), 10 + 40, True),
        (Usage(None, 20), 10 + 40, True),
        (Usage(12, 101), 12 + 2, True),
        (Usage(2**31 - 1, 2**31 - 1), 10 + 2, True),
    ],
)
def test_a_count_that_can_not_be_sets_no_cost(
    usage: Usage | None, cost_usd: float, disbelieved: bool
) -> None:
    counted = account()
    counted.take(Piece(b"", 0.0, tokens=usage.output_tokens if usage else 1, usage=usage))
    assert (counted.cost_usd, counted.disbelieved) == (cost_usd, disbelieved)


def test_a_lie_amid_a_stream_ends_no_budget() -> None:
    counted = account(budget_usd=10 + 2 * 40)
    for k, told in enumerate([1, 2, 10**6, 4, 5]):
        piece = Piece(b"", 0.0, tokens=10**6 if told > 100 else 1, usage=Usage(10, told))
        assert not counted.passes(piece), k
        counted.take(piece)
        assert not counted.spent
    assert counted.output_tokens == 5
    assert counted.cost_usd == 10 + 2 * 5


@pytest.mark.parametrize("stream", [False, True])
def test_a_server_that_can_not_have_counted_is_told_of(stream: bool) -> None:
    with serving(config(), tokens=3, input_tokens=10**7) as place:
        assert place.chat(stream=stream).status_code == 200
        place.settled()
        page = place.client.get("/metrics").text
    costs = [line for line in page.splitlines() if line.startswith("rbx_cost_usd_total{")]
    assert sum(float(line.split()[-1]) for line in costs) < 1e-5
    told = [line for line in page.splitlines() if line.startswith("rbx_usage_disbelieved_total{")]
    assert sum(float(line.split()[-1]) for line in told) == 1.0
