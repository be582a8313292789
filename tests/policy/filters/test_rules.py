"""Every rule against a scalar reading of its definition, over random pools, loads and targets."""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rbx.policy.filters.admissions import ADMISSIONS
from tests.policy.algorithm1 import Ask, Server
from tests.policy.filters.filtered_scenes import filtered, rule_of, slo_of, view_after, with_targets
from tests.policy.filters.plain_filter import Predictor, Promise, admitted, cost_usd, length
from tests.policy.scenes import random_asks, random_servers, state_of, table_of

RULES: list[dict[str, Any]] = [
    {"kind": "cdf"},
    {"kind": "cdf", "mode": "hard"},
    {"kind": "qlm"},
    {"kind": "slos-serve"},
    {"kind": "polyserve"},
    {"kind": "timebill"},
    {"kind": "budget"},
    {"kind": "none"},
]
TTFT_TARGETS_S = (0.05, 0.3, 1.0, 3.0)
TPOT_TARGETS_S = (0.01, 0.03, 0.06)


def random_predictor(rng: np.random.Generator, servers: list[Server], n: int) -> Predictor:
    """Residuals in steps, so that P lands on 0.7, 0.6 and so on; no tie with a target is likely."""
    tiers = 1 + max(server.model for server in servers)
    return Predictor(
        tokens_per_s=[float(v) for v in rng.choice([500.0, 2000.0, 8000.0], len(servers))],
        tpot_s=[float(v) for v in rng.choice([0.008, 0.02, 0.05], len(servers))],
        waited_s=[float(v) for v in rng.uniform(0.0, 0.2, n)],
        ttft_residuals=[[float(v) for v in rng.normal(0.05, 0.4, 10)] for _ in range(tiers)],
        tpot_residuals=[[float(v) for v in rng.normal(0.0, 0.02, 10)] for _ in range(tiers)],
    )


@pytest.mark.parametrize("on_empty", ["all", "cheapest", "shed"])
@pytest.mark.parametrize("fields", RULES, ids=lambda fields: "-".join(map(str, fields.values())))
@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_who_is_left_is_who_the_definition_leaves(fields: dict[str, Any], on_empty: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    servers = random_servers(rng, 3)
    requests = random_asks(rng, int(rng.integers(1, 8)), 3)
    predictor = random_predictor(rng, servers, len(requests))
    promise = Promise(
        float(rng.choice(TTFT_TARGETS_S)), float(rng.choice(TPOT_TARGETS_S)), float(rng.choice([1.0, 10.0]))
    )
    # ``none`` lets everybody pass, and so has no such field.
    rule = rule_of(**fields, **({} if fields["kind"] == "none" else {"on_empty": on_empty}))
    policy, first = filtered(rule, servers, predictor, slo_of(promise.tpot_s, promise.e2e_s))
    state = state_of(servers)
    alive = state.alive.copy()
    found = policy.assign(
        np.arange(len(requests)),
        with_targets(table_of(requests), promise.ttft_s),
        view_after(servers, predictor.waited_s),
        state,
    )

    plain, left = copy.deepcopy(servers), []
    for k, ask in enumerate(requests):
        expected, how = admitted(
            fields["kind"],
            k,
            ask,
            plain,
            predictor,
            promise,
            on_empty=on_empty,
            tiered=fields == {"kind": "cdf"},
        )
        assert ADMISSIONS[found.admission[k]] == how
        assert found.admitted[k] == len(expected)
        if how != "shed":
            left.append(expected)
        best = min(expected, default=-1)
        assert found.instance[k] == best
        if best >= 0:
            book(plain[best], ask)
    assert first.left == left
    assert state.alive.tolist() == alive.tolist()
    assert state.pending_prefill_tokens.tolist() == [server.pending_prefill for server in plain]


def book(server: Server, ask: Ask) -> None:
    if server.running < server.max_num_seqs and server.waiting == 0:
        server.running += 1
    else:
        server.waiting += 1
    server.pending_prefill += ask.input_tokens
    server.pending_decode += length(ask, server)


@pytest.mark.parametrize("fields", RULES[1:-1], ids=lambda fields: "-".join(map(str, fields.values())))
@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), looser=st.floats(1.0, 20.0))
def test_looser_promises_never_leave_fewer(fields: dict[str, Any], looser: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    servers = random_servers(rng, 3)
    (ask,) = random_asks(rng, 1, 3)
    predictor = random_predictor(rng, servers, 1)
    rule = rule_of(**{**fields, "on_empty": "shed"})
    left = []
    for scale in (1.0, looser):
        policy, first = filtered(rule, servers, predictor, slo_of(0.02 * scale, 2.0 * scale))
        table = with_targets(table_of([ask]), 0.3 * scale)
        table = table._replace(budget_usd=table.budget_usd * scale)
        policy.assign(np.arange(1), table, view_after(servers, predictor.waited_s), state_of(servers))
        left.append(first.left[0] if first.left else set())
    assert left[0] <= left[1]


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_within_a_budget_nobody_is_left_who_would_exceed_it_nor_who_is_dead(seed: int) -> None:
    rng = np.random.default_rng(seed)
    servers = random_servers(rng, 3)
    requests = random_asks(rng, 6, 3)
    predictor = random_predictor(rng, servers, len(requests))
    for kind in ("budget", "cdf"):
        policy, first = filtered(rule_of(kind=kind), servers, predictor, slo_of(0.02))
        table = with_targets(table_of(requests), 0.3)
        found = policy.assign(
            np.arange(len(requests)), table, view_after(servers, predictor.waited_s), state_of(servers)
        )
        for k, (ask, left) in enumerate(zip(requests, first.left, strict=True)):
            assert all(servers[i].alive and ask.input_tokens < servers[i].max_model_len for i in left)
            if ADMISSIONS[found.admission[k]] in ("all", "cheapest"):
                continue
            assert all(cost_usd(ask, servers[i]) <= ask.budget_usd for i in left)


def one_server(**fields: Any) -> Server:
    return Server(
        model=0, price_in_usd=1e-6, price_out_usd=2e-6, max_num_seqs=4, max_model_len=8192, **fields
    )


def asked(budget_usd: float = math.inf) -> Ask:
    return Ask(input_tokens=100, max_tokens=1000, budget_usd=budget_usd, quality=[0.5], length=[200.0])


@pytest.mark.parametrize(
    ("ttft_s", "word"),
    # Ten residuals 0.0 … 0.9 s and a prediction of 0.1 s: P(TTFT ≤ target) is 0.8, 0.7, 0.6, … in turn.
    [
        (0.85, "strict"),
        (0.75, "strict"),
        (0.65, "relaxed 1"),
        (0.55, "relaxed 3"),
        (0.45, "relaxed 5"),
        (0.35, "all"),
    ],
)
def test_theta_of_ttft_is_relaxed_first_of_each_round(ttft_s: float, word: str) -> None:
    residuals = [[step / 10 for step in range(10)]]
    predictor = Predictor([1000.0], [0.01], [0.0], residuals, [[0.0]])
    policy, _ = filtered(rule_of(kind="cdf"), [one_server()], predictor, slo_of(0.02))
    table = with_targets(table_of([asked()]), ttft_s)
    found = policy.assign(np.arange(1), table, view_after([one_server()], [0.0]), state_of([one_server()]))
    assert ADMISSIONS[found.admission[0]] == word


@pytest.mark.parametrize(
    ("tpot_s", "word"), [(0.075, "strict"), (0.065, "relaxed 2"), (0.055, "relaxed 4"), (0.035, "all")]
)
def test_theta_of_tpot_is_relaxed_after_it(tpot_s: float, word: str) -> None:
    residuals = [[step / 100 for step in range(10)]]
    predictor = Predictor([1000.0], [0.01], [0.0], [[0.0]], residuals)
    policy, _ = filtered(rule_of(kind="cdf"), [one_server()], predictor, slo_of(tpot_s))
    table = with_targets(table_of([asked()]), 5.0)
    found = policy.assign(np.arange(1), table, view_after([one_server()], [0.0]), state_of([one_server()]))
    assert ADMISSIONS[found.admission[0]] == word


def test_hard_mode_never_relaxes() -> None:
    residuals = [[step / 10 for step in range(10)]]
    predictor = Predictor([1000.0], [0.01], [0.0], residuals, [[0.0]])
    rule = rule_of(kind="cdf", mode="hard", on_empty="shed")
    policy, first = filtered(rule, [one_server()], predictor, slo_of(0.02))
    table = with_targets(table_of([asked()]), 0.65)
    found = policy.assign(np.arange(1), table, view_after([one_server()], [0.0]), state_of([one_server()]))
    assert (found.instance[0], ADMISSIONS[found.admission[0]], first.left) == (-1, "shed", [])


def test_budgets_are_weighed_with_each_candidates_own_length() -> None:
    """Two models of one price, one of which says ten times as much."""
    servers = [one_server(), one_server()]
    servers[1].model = 1
    ask = Ask(100, 1000, 2e-4, [0.5, 0.5], [20.0, 200.0])
    policy, first = filtered(
        rule_of(kind="budget"), servers, Predictor([1.0] * 2, [0.01] * 2, [0.0]), slo_of()
    )
    policy.assign(np.arange(1), table_of([ask]), view_after(servers, [0.0]), state_of(servers))
    assert first.left == [{0}]


def test_no_filter_hides_budgets_from_the_policy_but_not_from_the_cap() -> None:
    """100 tokens in cost 1e-4 USD, so that 2e-4 leave 50 tokens out."""
    policy, _ = filtered(rule_of(kind="none"), [one_server()], Predictor([1.0], [0.01], [0.0]), slo_of())
    found = policy.assign(
        np.arange(1), table_of([asked(2e-4)]), view_after([one_server()], [0.0]), state_of([one_server()])
    )
    assert found.max_tokens.tolist() == [50]
