"""A policy behind a filter: what of it stays as it was, and what the filter may do."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from rbx.config.policy import RoutedPolicy, SinglePolicy
from rbx.errors import ConfigError
from rbx.policy.base import MODES, Assignment
from rbx.policy.build import build_policy
from rbx.policy.filters.open_models import AmongOpenModels
from rbx.policy.prompt_routers import HighestScore
from rbx.policy.routers import ANY_MODEL, Fixed
from tests.policy.algorithm1 import Ask, Server
from tests.policy.filters.filtered_scenes import filtered, rule_of, slo_of, view_after
from tests.policy.filters.plain_filter import Predictor
from tests.policy.scenes import blind_latency_model, state_of, table_of, view_of
from tests.policy.test_dispatch import NoTpot

MODELS = ("cheap", "good", "best")


def servers() -> list[Server]:
    """Two instances a model; a token costs 1, 2 and 4 micro-dollars."""
    prices = (1e-6, 2e-6, 4e-6)
    return [Server(model, prices[model], prices[model], 4, 8192) for model in (0, 0, 1, 1, 2, 2)]


def ask(budget_usd: float) -> Ask:
    """100 tokens in and 100 out on any model: 2e-4, 4e-4 and 8e-4 USD."""
    return Ask(100, 1000, budget_usd, [0.1, 0.5, 0.9], [100.0] * 3)


def decided(config: SinglePolicy, asks: list[Ask], seed: int = 0) -> Assignment:
    pool = servers()
    policy = build_policy(config, MODELS, NoTpot(), blind_latency_model(pool), np.random.default_rng(seed))
    return policy.assign(np.arange(len(asks)), table_of(asks), view_of(pool, len(asks)), state_of(pool))


def knn(**fields: Any) -> RoutedPolicy:
    return RoutedPolicy(router="knn", dispatch="shortest-queue", **fields)


def test_a_router_that_reads_the_prompt_takes_the_best_model_that_is_left() -> None:
    budgets = [math.inf, 8e-4, 7e-4, 4e-4, 3e-4, 2e-4, 1e-4]
    found = decided(knn(filter=rule_of(kind="budget")), [ask(budget) for budget in budgets])
    model = np.array([server.model for server in servers()])
    assert model[found.instance].tolist() == [2, 2, 1, 1, 0, 0, 0]


def test_a_router_that_does_not_leaves_a_closed_model_to_the_dispatcher() -> None:
    config = RoutedPolicy(
        router="always", model="best", dispatch="shortest-queue", filter=rule_of(kind="budget")
    )
    found = decided(config, [ask(4e-4)] * 8 + [ask(8e-4)] * 2)
    assert np.bincount(found.instance, minlength=6).tolist() == [2, 2, 2, 2, 1, 1]


def test_where_nobody_fits_the_budget_the_cheapest_is_left_or_all_or_nobody() -> None:
    rules = {on_empty: rule_of(kind="budget", on_empty=on_empty) for on_empty in ("all", "cheapest", "shed")}
    found = {name: decided(knn(filter=rule), [ask(1e-5)]) for name, rule in rules.items()}
    model = np.array([server.model for server in servers()])
    assert model[found["all"].instance[0]] == 2
    assert model[found["cheapest"].instance[0]] == 0
    assert found["shed"].instance[0] == -1
    modes = {name: MODES[answer.mode[0]] for name, answer in found.items()}
    assert modes == {"all": "policy", "cheapest": "policy", "shed": "shed"}
    assert found["cheapest"].max_tokens[0] == 1


@pytest.mark.parametrize("router", ["passthrough", "random", "mix", "knn"])
@pytest.mark.parametrize("dispatch", ["round-robin", "shortest-queue", "random", {"kind": "power-of-d"}])
def test_a_filter_that_leaves_everybody_changes_nothing(router: str, dispatch: Any) -> None:
    """Batches of fifty, so that draws and turns within one batch are compared as well."""
    shares = {"mix": {"cheap": 1.0, "good": 2.0, "best": 3.0}}.get(router)
    fields = {"router": router, "dispatch": dispatch, "shares": shares}
    asks = [ask(math.inf)] * 50
    plain = decided(RoutedPolicy.model_validate(fields), asks, seed=3)
    for kind in ("none", "budget"):
        behind = decided(RoutedPolicy.model_validate({**fields, "filter": kind}), asks, seed=3)
        for name in vars(plain):
            np.testing.assert_array_equal(getattr(behind, name), getattr(plain, name))


def test_predictions_are_asked_for_by_rules_that_price_answers_alone() -> None:
    for kind, reads in (("budget", True), ("none", False)):
        config = RoutedPolicy(router="passthrough", dispatch="random", filter=rule_of(kind=kind))
        policy = build_policy(
            config, MODELS, NoTpot(), blind_latency_model(servers()), np.random.default_rng(0)
        )
        assert policy.needs.predictions is reads


def test_each_request_sees_what_those_before_it_were_sent() -> None:
    """θ of 1,000 tokens/s: one prompt of 100 tokens is in time within 0.15 s, two in line are not."""
    pool = servers()
    predictor = Predictor([1000.0] * 6, [0.01] * 6, [0.0] * 8)
    rule = rule_of(kind="slos-serve", ttft_s=0.15)
    policy, first = filtered(rule, pool, predictor, slo_of())
    policy.assign(np.arange(8), table_of([ask(math.inf)] * 8), view_after(pool, [0.0] * 8), state_of(pool))
    assert [len(left) for left in first.left] == [6, 5, 4, 3, 2, 1, 6, 6]


def test_without_a_calibration_nothing_is_guessed() -> None:
    for kind in ("cdf", "qlm"):
        with pytest.raises(ConfigError, match="rbx train GRID --pool POOL --out BUNDLE --calibrate"):
            filtered(rule_of(kind=kind, ttft_s=1.0), servers(), Predictor([1.0] * 6, [0.1] * 6, []), slo_of())


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"kind": "timebill"}, "time_budget_s"),
        ({"kind": "polyserve", "ttft_s": 1.0}, "tpot_s"),
    ],
)
def test_a_rule_without_its_target_is_refused(fields: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        filtered(rule_of(**fields), servers(), Predictor([1.0] * 6, [0.1] * 6, []), slo_of())


def test_a_closed_model_gives_way_to_the_next_best_score() -> None:
    asks = [Ask(10, 10, math.inf, quality, [5.0] * 3) for quality in ([0.1, 0.5, 0.9], [0.6, 0.5, 0.1])]
    router = AmongOpenModels(HighestScore(trained=False), 3)
    table, rows = table_of(asks), np.arange(2)
    router.look(rows, table)
    assert router.choose(rows, table).tolist() == [2, 0]
    router.open[2] = False
    assert router.choose(rows, table).tolist() == [1, 0]
    router.open[:] = False
    assert router.choose(rows, table).tolist() == [ANY_MODEL, ANY_MODEL]
    fixed = AmongOpenModels(Fixed(1), 3)
    fixed.look(rows, table)
    assert fixed.choose(rows, table).tolist() == [1, 1]
    fixed.open[1] = False
    assert fixed.choose(rows, table).tolist() == [ANY_MODEL, ANY_MODEL]


def test_a_router_that_scores_its_choice_alone_gives_way_to_the_best_prediction_that_is_left() -> None:
    asks = [Ask(10, 10, math.inf, quality, [5.0] * 3) for quality in ([0.1, 0.5, 0.9], [0.6, 0.5, 0.1])]
    table, rows = table_of(asks)._replace(router_score=np.eye(3)[[2, 2]]), np.arange(2)
    router = AmongOpenModels(HighestScore(trained=True), 3)
    router.look(rows, table)
    assert router.choose(rows, table).tolist() == [2, 2]
    router.open[2] = False
    assert router.choose(rows, table).tolist() == [1, 0]
