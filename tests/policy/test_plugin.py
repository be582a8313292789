"""Policies of other packages: found, told what they may know, and held to what they owe."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rbx.config.plugin_policy import PluginPolicy
from rbx.errors import ConfigError
from rbx.policy.base import NO_INSTANCE, Assignment, Policy
from rbx.policy.build import build_policy
from rbx.policy.plugin import installed_plugins, plugin_identity
from tests.policy.algorithm1 import Ask, Server
from tests.policy.plugged import plug_in
from tests.policy.scenes import blind_latency_model, random_asks, state_of, table_of, view_of

MODELS = ("small", "large")
ROUTER = """
    import numpy as np

    class Router:
        needs_predictions = False

        def __init__(self, given):
            self.given = given

        def choose(self, requests, table):
            return {choose}

    def make(given):
        return Router(given)
"""
POLICY = """
    from dataclasses import replace

    from rbx.policy.ask import asks
    from rbx.policy.base import Needs
    from rbx.policy.placing import Placing

    class Policy:
        needs = Needs(predictions=True)

        def __init__(self, shape):
            self.shape = shape

        def assign(self, requests, table, view, state):
            placing = Placing.of(len(requests), self.shape, state, 0)
            for ask in asks(requests, table, view, self.shape):
                placing.put(ask, {instance})
            return {answer}

    def make(given):
        return Policy(given.shape)
"""


def servers() -> list[Server]:
    return [Server(model, 1e-7, 1e-7, 4, 8192) for model in (0, 0, 1)]


class _NoTpot:
    def predict(self, features: Any, tier_of_instance: Any) -> Any:
        raise AssertionError("nobody asks")


def built(policy: PluginPolicy, seed: int = 0, pool: list[Server] | None = None) -> Policy:
    latency = blind_latency_model(pool or servers())
    return build_policy(policy, MODELS, _NoTpot(), latency, np.random.default_rng(seed))


def placed(policy: Policy, asks: list[Ask], pool: list[Server]) -> Assignment:
    requests = np.arange(len(asks))
    return policy.assign(requests, table_of(asks), view_of(pool, len(asks)), state_of(pool))


def some_asks(n: int = 12) -> list[Ask]:
    return random_asks(np.random.default_rng(0), n, len(MODELS))


def test_a_router_sees_options_models_shape_and_its_own_chance_and_is_dispatched(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    choose = 'np.full(len(requests), self.given.models.index(self.given.options["to"]))'
    plug_in(monkeypatch, tmp_path, "plug_to", ROUTER.format(choose=choose))
    for to, instances in (("small", {0, 1}), ("large", {2})):
        for dispatch in (None, "random", "round-robin"):
            policy = PluginPolicy(name="plug_to", options={"to": to}, dispatch=dispatch)
            answer = placed(built(policy), some_asks(), servers())
            assert set(answer.instance.tolist()) == instances


def test_its_chance_is_the_seeds(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    plug_in(
        monkeypatch,
        tmp_path,
        "plug_lot",
        ROUTER.format(choose="self.given.rng.integers(0, 2, len(requests))"),
    )
    policy = PluginPolicy(name="plug_lot")
    drawn = [placed(built(policy, seed), some_asks(40), servers()).instance.tolist() for seed in (0, 0, 1)]
    assert drawn[0] == drawn[1] != drawn[2]


def test_a_policy_places_requests_itself_and_takes_no_dispatcher(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    plug_in(monkeypatch, tmp_path, "plug_last", POLICY.format(instance=2, answer="placing.answer"))
    policy = built(PluginPolicy(name="plug_last"))
    assert policy.needs.predictions
    assert set(placed(policy, some_asks(), servers()).instance.tolist()) == {2}
    with pytest.raises(ConfigError, match="plug_last picks the instance itself; leave dispatch out"):
        built(PluginPolicy(name="plug_last", dispatch="random"))


def test_an_unknown_name_is_told_what_is_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    plug_in(monkeypatch, tmp_path, "plug_known", ROUTER.format(choose="requests * 0"), version="2.5")
    with pytest.raises(
        ConfigError, match=r"plug-in absent is not installed.*plug_known \(dist-plug_known 2\.5\)"
    ):
        built(PluginPolicy(name="absent"))


def test_two_packages_that_offer_one_name_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    source = ROUTER.format(choose="requests * 0")
    plug_in(monkeypatch, tmp_path / "a", "plug_one", source, name="same")
    plug_in(monkeypatch, tmp_path / "b", "plug_two", source, name="same")
    with pytest.raises(ConfigError, match=r"same is offered by dist-plug_\w+ 1\.0, dist-plug_\w+ 1\.0"):
        built(PluginPolicy(name="same"))
    there = installed_plugins()
    assert {"same (dist-plug_one 1.0)", "same (dist-plug_two 1.0)"} <= set(there)
    assert there["same (dist-plug_one 1.0)"]["entry_point"] == "plug_one:make"


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (
            "def make(given):\n    raise KeyError('slack')",
            r"refused its options or the pool: KeyError: 'slack' \(.*:2\)",
        ),
        ("def make(given):\n    raise SystemExit(0)", r"refused its options or the pool: SystemExit: 0"),
        ("import no_such_module_of_anybody", r"can't be loaded: ModuleNotFoundError: .*no_such_module"),
        ("def made(given): ...", r"can't be loaded: AttributeError"),
        ("def make(given):\n    return 5", r"made a int, which is neither a policy"),
        (
            "class R:\n    needs_predictions = 1\n    choose = print\ndef make(given):\n    return R()",
            r"needs_predictions is 1",
        ),
        (
            "class P:\n    needs = None\n    assign = print\ndef make(given):\n    return P()",
            r"needs is None",
        ),
        (
            "from rbx.policy.base import Needs\n"
            "class P:\n    needs = Needs(served=True)\n    assign = print\ndef make(given):\n    return P()",
            r"has no learn",
        ),
    ],
)
def test_one_that_can_not_be_made_is_named_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, request: pytest.FixtureRequest, source: str, said: str
) -> None:
    module = f"plug_bad_{zlib.crc32(source.encode())}"
    plug_in(monkeypatch, tmp_path, module, source)
    with pytest.raises(ConfigError, match=said) as caught:
        built(PluginPolicy(name=module))
    assert f"{module} (dist-{module} 1.0)" in str(caught.value)


@pytest.mark.parametrize(
    "choose",
    ["requests * 0 + 2", "requests * 0 - 2", "requests[:-1] * 0", "requests * 0.5", "None", "[]", "1 / 0"],
)
def test_a_router_that_names_no_model_is_stopped(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, choose: str
) -> None:
    module = f"plug_wrong_{sum(map(ord, choose))}_{len(choose)}"
    plug_in(monkeypatch, tmp_path, module, ROUTER.format(choose=choose))
    with pytest.raises(ConfigError, match=rf"{module} .*(whole numbers from -1|ZeroDivisionError)"):
        placed(built(PluginPolicy(name=module)), some_asks(), servers())


def test_what_it_writes_into_the_list_of_requests_is_its_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    plug_in(monkeypatch, tmp_path, "plug_writes_r", ROUTER.format(choose="requests.fill(0) or requests"))
    asks, pool = some_asks(), servers()
    requests = np.arange(len(asks))
    policy = built(PluginPolicy(name="plug_writes_r"))
    policy.assign(requests, table_of(asks), view_of(pool, len(asks)), state_of(pool))
    assert requests.tolist() == list(range(len(asks)))

    source = POLICY.format(instance=0, answer="(placing.answer, requests.fill(0))[0]")
    plug_in(monkeypatch, tmp_path / "p", "plug_writes_p", source)
    policy = built(PluginPolicy(name="plug_writes_p"))
    policy.assign(requests, table_of(asks), view_of(pool, len(asks)), state_of(pool))
    assert requests.tolist() == list(range(len(asks)))


@pytest.mark.parametrize(
    ("instance", "answer", "said"),
    [
        ("1", "placing.answer", "instance 1, which is down"),
        ("0", "None", "gave a NoneType"),
        ("0", "Placing.of(1, self.shape, state, 0).answer", r"instance has shape \(1,\)"),
        (
            "0",
            "placing.answer if placing.answer.max_tokens.fill(0) else placing.answer",
            r"max_tokens is 0 where .* allow 1 to \d+",
        ),
        (
            "0",
            "placing.answer if placing.answer.max_tokens.fill(10**6) else placing.answer",
            r"max_tokens is 1000000 where .* allow 1 to \d+",
        ),
        ("0", "replace(placing.answer, instance=[0] * len(requests))", "instance must be an array of whole"),
        ("0", "replace(placing.answer, mode=placing.answer.mode * 1.0)", "mode must be .* one of float64"),
        ("0", "replace(placing.answer, quality=placing.answer.quality.astype(str))", "array of numbers"),
        ("0", "placing.answer if placing.answer.mode.fill(7) else placing.answer", "mode must index"),
        ("0", "placing.answer if placing.answer.instance.fill(9) else placing.answer", "instance 9"),
    ],
)
def test_a_policy_whose_assignment_can_not_be_carried_out_is_stopped(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, instance: str, answer: str, said: str
) -> None:
    module = f"plug_off_{sum(map(ord, answer))}_{instance}"
    plug_in(monkeypatch, tmp_path, module, POLICY.format(instance=instance, answer=answer))
    pool = servers()
    pool[1].alive = False
    with pytest.raises(ConfigError, match=said):
        placed(built(PluginPolicy(name=module), pool=pool), some_asks(), pool)


WRITES = ("table.quality", "table.budget_usd", "table.input_tokens", "self.given.shape.price_in_usd")


@pytest.mark.parametrize("what", WRITES)
def test_a_router_can_not_write_where_others_read(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, what: str
) -> None:
    module = f"plug_router_into_{what.replace('.', '_')}"
    plug_in(monkeypatch, tmp_path, module, ROUTER.format(choose=f"{what}.fill(0) or requests * 0"))
    with pytest.raises(ConfigError, match="read-only"):
        placed(built(PluginPolicy(name=module)), some_asks(), servers())


@pytest.mark.parametrize(
    "what", [*WRITES[:3], "self.shape.model", "view.arrived_s", "view.telemetry.running"]
)
def test_a_policy_can_not_write_where_others_read_but_into_the_state(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, what: str
) -> None:
    module = f"plug_policy_into_{what.replace('.', '_')}"
    source = POLICY.format(instance=0, answer=f"({what}.fill(0), placing.answer)[1]")
    plug_in(monkeypatch, tmp_path, module, source)
    with pytest.raises(ConfigError, match="read-only"):
        placed(built(PluginPolicy(name=module)), some_asks(), servers())
    source = POLICY.format(instance=0, answer="(state.running.fill(7), placing.answer)[1]")
    plug_in(monkeypatch, tmp_path / "s", f"{module}_s", source)
    pool, asks = servers(), some_asks()
    state = state_of(pool)
    policy = built(PluginPolicy(name=f"{module}_s"))
    policy.assign(np.arange(len(asks)), table_of(asks), view_of(pool, len(asks)), state)
    assert state.running.tolist() == [7, 7, 7]


def test_nobody_is_a_place_that_a_policy_may_leave_a_request_at(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    source = POLICY.format(instance=0, answer="Placing.of(len(requests), self.shape, state, 0).answer")
    plug_in(monkeypatch, tmp_path, "plug_none", source)
    answer = placed(built(PluginPolicy(name="plug_none")), some_asks(), servers())
    assert set(answer.instance.tolist()) == {NO_INSTANCE}


def test_its_identity_follows_version_and_source(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    source = ROUTER.format(choose="requests * 0")
    found = []
    for folder, version, text in (
        ("a", "1.0", source),
        ("b", "1.1", source),
        ("c", "1.0", source + "\n# other\n"),
    ):
        with monkeypatch.context() as patch:
            plug_in(patch, tmp_path / folder, "plug_same", text, version=version)
            found.append(plugin_identity("plug_same"))
    assert [each["version"] for each in found] == ["1.0", "1.1", "1.0"]
    assert {each["distribution"] for each in found} == {"dist-plug_same"}
    assert found[0]["sources"] == found[1]["sources"] != found[2]["sources"]
