"""What enters a cell's identity beside its policy: all that decides, and nothing for cells of old."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rbx.config.classifier_service import ClassifierService
from rbx.config.plugin_policy import PluginPolicy
from rbx.config.policy import RouteBalancePolicy, RoutedPolicy, SinglePolicy
from rbx.heads.bundle import Bundle
from rbx.sweep.decided_by import decided_by
from tests.policy.plugged import plug_in
from tests.sweep.scenes import small_context
from tests.workplace import Workplace

THIRD = (1 / 3, 1 / 3, 1 / 3)


@pytest.fixture(scope="module")
def bundle(workplace: Workplace) -> Bundle:
    return Bundle.load(workplace.folder / "results/bundles/tiny")


@pytest.mark.parametrize(
    "policy",
    [
        RouteBalancePolicy(weights=THIRD),
        RouteBalancePolicy(weights=THIRD, tie_break="latency"),
        RoutedPolicy(router="knn", dispatch="random"),
        RoutedPolicy(router="oracle", dispatch="random"),
    ],
    ids=lambda policy: str(policy.label),
)
def test_nothing_where_settings_and_grid_say_it_all(policy: SinglePolicy, bundle: Bundle) -> None:
    assert decided_by(policy, bundle, small_context().prompts) == {}


def test_the_static_prior_is_told_from_the_one_that_counted_decodes(bundle: Bundle) -> None:
    policy = RouteBalancePolicy(weights=THIRD, latency="prior")
    assert decided_by(policy, bundle, small_context().prompts) == {"prior": "tpot*L"}


def test_matching_is_told_from_the_one_that_took_the_first_of_equals(bundle: Bundle) -> None:
    policy = RouteBalancePolicy(weights=THIRD, placement="matching")
    assert decided_by(policy, bundle, small_context().prompts) == {"matching": "ties by queue"}


def test_the_answers_of_a_service(bundle: Bundle) -> None:
    service = ClassifierService(url="http://127.0.0.1:9", models={"math": "small"})
    policy = RoutedPolicy(router="vllm-sr", dispatch="random", service=service)
    prompts = small_context().prompts
    answers = np.eye(2)[np.arange(len(prompts)) % 2]
    found = [
        decided_by(policy, bundle, replace(prompts, router_score={policy.router_label: each}))
        for each in (answers, answers.copy(), answers[::-1])
    ]
    assert found[0] == found[1]
    assert found[0]["router"] != found[2]["router"]
    moved = service.model_copy(update={"url": "http://127.0.0.1:10", "timeout_s": 9.0})
    asked = replace(prompts, router_score={policy.router_label: answers})
    assert decided_by(policy.model_copy(update={"service": moved}), bundle, asked) == found[0]
    other = policy.model_copy(update={"dispatch": "round-robin"})
    assert decided_by(other, bundle, asked) != found[0]
    # Before anybody was asked, as in a live sweep: the gateway asks.
    assert decided_by(policy, bundle, prompts) == {}


def test_a_plug_in_by_its_distribution(
    bundle: Bundle, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    plug_in(monkeypatch, tmp_path, "plug_id", "def make(given): ...", version="3.1")
    found = decided_by(PluginPolicy(name="plug_id"), bundle, small_context().prompts)["plugin"]
    assert (found["distribution"], found["version"]) == ("dist-plug_id", "3.1")
    assert found["entry_point"] == "plug_id:make"
    assert found["sources"]
