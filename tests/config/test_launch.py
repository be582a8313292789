"""Launch files: the examples hold together with their pools, and what can't be meant is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from rbx.config.base import parse, read_yaml
from rbx.config.launch import Launch, LocalLauncher, MockLauncher
from rbx.config.pool import load_pool
from rbx.errors import ConfigError

ROOT = Path(__file__).resolve().parents[2]
LAUNCHES = sorted((ROOT / "experiments" / "launch").glob("*.yaml"))


def loaded(path: Path) -> Launch:
    return parse(Launch, read_yaml(path), where=str(path))


@pytest.mark.parametrize("path", LAUNCHES, ids=lambda path: path.stem)
def test_the_examples_fit_their_pools(path: Path) -> None:
    launch = loaded(path)
    pool = load_pool(ROOT / launch.pool).value
    launch.check(pool)
    assert launch.gateway is not None
    launch.gateway.single_policy(pool.models)
    if isinstance(launch.launcher, LocalLauncher):
        assert set(launch.launcher.tiers) == {tier.name for tier in pool.tiers}
    assert f"rbx launch {path.relative_to(ROOT)}" in path.read_text(encoding="utf-8")


def test_the_examples_show_both_ways_without_gpus() -> None:
    found = {path.stem: loaded(path).launcher for path in LAUNCHES}
    assert isinstance(found["mock-paper"], MockLauncher)
    local = found["local-cpu"]
    assert isinstance(local, LocalLauncher)
    assert {tier.gpus for tier in local.tiers.values()} == {0}


@pytest.mark.parametrize(
    ("launcher", "message"),
    [
        ({"kind": "slurm"}, "launcher"),
        ({"kind": "ray", "address": "cluster"}, "neither auto, local, HOST:PORT nor ray://HOST:PORT"),
        ({"kind": "ray", "place_s": 0}, "place_s"),
        ({"kind": "ray", "tiers": {"a": {"cpus": float("nan")}}}, "cpus"),
        ({"kind": "ray", "tiers": {"a": {"flags": ["--host=0"]}}}, "--host is set by rbx itself"),
        ({"kind": "mock", "time_scale": 0}, "launcher.mock.time_scale|launcher.time_scale"),
        ({"kind": "mock", "seed": -1}, "seed"),
        ({"kind": "attach"}, "endpoints"),
        ({"kind": "local", "grace_s": float("inf")}, "grace_s"),
        ({"kind": "local", "tiers": {"a": {"flags": ["--port=1"]}}}, "--port is set by rbx itself"),
        ({"kind": "local", "tiers": {"a": {"gpus": -1}}}, "gpus"),
        ({"kind": "local", "host": "a b"}, "host"),
    ],
)
def test_launchers_that_can_not_be_meant_are_refused(launcher: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse(Launch, {"pool": "pool.yaml", "launcher": launcher}, where="launch.yaml")


def test_tiers_that_the_pool_lacks_are_named() -> None:
    path = ROOT / "experiments" / "launch" / "local-cpu.yaml"
    document = yaml.safe_load(path.read_text(encoding="utf-8"))
    document["launcher"]["tiers"]["huge"] = {}
    pool = load_pool(ROOT / document["pool"]).value
    with pytest.raises(ConfigError, match=r"has no tier huge; it has large, small"):
        parse(Launch, document, where=str(path)).check(pool)
