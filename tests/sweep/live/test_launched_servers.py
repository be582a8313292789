"""Servers that a sweep brings up: what went wrong is shown, what ended comes up anew, and nothing is left."""

from __future__ import annotations

import asyncio
import os
import stat
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import httpx
import pytest
import yaml

from rbx.config.base import parse
from rbx.config.experiment import Experiment
from rbx.config.policy import RoutedPolicy
from rbx.config.pool import Pool
from rbx.errors import ConfigError, StoreError
from rbx.sweep.live.fault import TargetFault
from rbx.sweep.live.opening import opened
from rbx.sweep.live.target import LiveTarget
from tests.serve.mock.pools import small_pool

T = TypeVar("T")


def experiment(folder: Path, launcher: dict[str, Any], over: Pool | None = None, **launch: Any) -> Experiment:
    """Live on a launch file of its own."""
    pool = folder / "pool.yaml"
    pool.write_text(yaml.safe_dump((over or small_pool()).model_dump(mode="json")), encoding="utf-8")
    file = folder / "launch.yaml"
    document = {"pool": str(pool), "launcher": launcher, **launch}
    file.write_text(yaml.safe_dump(document), encoding="utf-8")
    target = {"kind": "launch", "file": str(file), "set": ["launcher.seed=3"] if "seed" in launcher else []}
    return parse(
        Experiment,
        {
            "name": "live",
            "grid": "grid",
            "bundle": "bundle",
            "pool": str(pool),
            "engine": "live",
            "live": {"target": target},
            "workload": {"rates_per_s": [5.0]},
            "policies": [{"kind": "passthrough"}],
        },
        where="test",
    )


def on(meant: Experiment, work: Callable[[LiveTarget], Awaitable[T]], logs: Path) -> T:
    live = meant.live
    assert live is not None

    async def run() -> T:
        async with opened(live, meant, small_pool(), None, logs) as servers:
            return await work(servers)

    return asyncio.run(run())


def processes_of(logs: Path) -> dict[int, str]:
    """Command lines of processes that were started for the test of this folder of logs."""
    found = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal() and int(folder.name) != os.getpid():
            try:
                command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
            except OSError:
                continue
            if str(logs.parent.parent) in command:
                found[int(folder.name)] = command
    return found


def pids_of(words: str, logs: Path) -> list[int]:
    """Processes that run these words, without their guards."""
    commands = processes_of(logs).items()
    return [pid for pid, command in commands if words in command and "guard.py" not in command]


def nothing_left(logs: Path, within_s: float = 30.0) -> None:
    until_s = time.monotonic() + within_s
    while left := processes_of(logs):
        assert time.monotonic() < until_s, left
        time.sleep(0.1)


async def _ready(servers: LiveTarget) -> None:
    await servers.ready()


def failing(folder: Path, script: str) -> dict[str, Any]:
    """A launcher whose servers are a shell script."""
    program = folder / "vllm"
    program.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    tiers = {name: {"command": [str(program)], "gpus": 0} for name in ("twin", "alone")}
    return {"kind": "local", "tiers": tiers, "grace_s": 1.0}


def test_the_last_lines_of_a_server_that_can_not_start_are_shown(tmp_path: Path) -> None:
    launcher = failing(
        tmp_path, 'echo "loading weights"; echo "torch.OutOfMemoryError: no memory left"; exit 7'
    )
    logs = tmp_path / "sweep" / "logs"
    with pytest.raises(TargetFault, match="exit code 1") as raised:
        on(experiment(tmp_path, launcher), _ready, logs)
    assert raised.value.kind == "launch_failed"
    assert "torch.OutOfMemoryError: no memory left" in str(raised.value)
    assert "exit code 7" in str(raised.value)
    assert str(logs) in str(raised.value)
    nothing_left(logs)


def test_a_server_that_never_comes_up_is_given_up_within_its_bound(tmp_path: Path) -> None:
    launcher = failing(tmp_path, 'echo "still loading"; sleep 600')
    logs = tmp_path / "sweep" / "logs"
    with pytest.raises(TargetFault) as raised:
        on(experiment(tmp_path, launcher, ready_s=2.0), _ready, logs)
    assert raised.value.kind == "launch_failed"
    assert "still loading" in str(raised.value)
    assert "not ready after 2 s" in str(raised.value)
    nothing_left(logs)


def test_the_next_cell_tries_anew(tmp_path: Path) -> None:
    launcher = failing(tmp_path, "exit 7")

    async def twice(servers: LiveTarget) -> int:
        failed = 0
        for _ in range(2):
            try:
                await servers.ready()
            except TargetFault as fault:
                failed += fault.kind == "launch_failed"
        return failed

    assert on(experiment(tmp_path, launcher), twice, tmp_path / "sweep" / "logs") == 2
    assert (tmp_path / "sweep" / "logs" / "launch.log.1").exists()


def test_another_pool_is_refused_before_anything_is_started(tmp_path: Path) -> None:
    meant = experiment(tmp_path, {"kind": "mock"}, over=small_pool(max_model_len=2048))
    with pytest.raises(ConfigError, match="is not the experiment's"):
        on(meant, _ready, tmp_path / "logs")
    assert not (tmp_path / "logs").exists()


def test_a_launch_comes_up_serves_a_cell_comes_up_anew_and_leaves_nothing(tmp_path: Path) -> None:
    logs = tmp_path / "sweep" / "logs"
    meant = experiment(tmp_path, {"kind": "mock", "time_scale": 10.0, "seed": 0})

    async def cell(servers: LiveTarget) -> dict[str, Any]:
        await servers.ready()
        identity = await servers.identity()
        installed = await servers.install(RoutedPolicy(router="passthrough", dispatch="random"))
        body = {"model": "auto", "messages": [{"role": "user", "content": "x"}], "max_tokens": 3}
        async with httpx.AsyncClient(timeout=60, trust_env=False) as client:
            answer = await client.post(f"{servers.url}/chat/completions", json=body)
        assert answer.headers["x-rbx-config-version"] == installed.label
        assert (
            set(identity.servers)
            == set(await servers.pages()) - {"gateway"}
            == {"twin/0", "twin/1", "alone/0"}
        )
        assert await servers.drained(10.0)
        return {"time_scale": servers.time_scale, "number": installed.number, "url": servers.url}

    async def again() -> None:
        assert meant.live is not None
        async with opened(meant.live, meant, small_pool(), None, logs):
            pass

    async def alive(url: str) -> bool:
        try:
            async with httpx.AsyncClient(timeout=5, trust_env=False) as client:
                return (await client.get(f"{url}/models")).is_success
        except httpx.HTTPError:
            return False

    async def two_cells(servers: LiveTarget) -> tuple[dict[str, Any], dict[str, Any]]:
        first = await cell(servers)
        with pytest.raises(StoreError, match="another live sweep"):
            await again()
        (pid,) = pids_of("-m rbx mock-tier", logs)
        os.kill(pid, 9)  # with its servers gone the launch ends
        while processes_of(logs):
            await asyncio.sleep(0.1)
        assert not await alive(first["url"])
        return first, await cell(servers)

    first, second = on(meant, two_cells, logs)
    assert first["time_scale"] == second["time_scale"] == 10.0
    assert first["number"] == second["number"] == 2  # the file's own configuration was the first
    nothing_left(logs)
