"""Launches on a Ray cluster of several nodes: where servers are placed, and what is left of them."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from rbx.cache_home import cache_home
from tests.ray_nodes import RayNodes, ray_nodes
from tests.serve.launch import tier_server
from tests.serve.launch.processes import POOLS, ROOT, Running, running
from tests.serve.launch.test_child import lives, wait_for

GPUS = {"big": 2, "small": 1, "cpu": None}
NODES = {
    "a100": {"num_cpus": 2, "num_gpus": 4, "resources": {"accelerator_type:A100": 1}},
    "a30": {"num_cpus": 2, "num_gpus": 2, "resources": {"accelerator_type:A30": 1}},
}
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RayNodes]:
    with ray_nodes(NODES, tmp_path_factory.mktemp("ray") / "cluster.log") as cluster:
        yield cluster


def launch_file(folder: Path, address: str, changes: dict[str, Any], **document: Any) -> list[str]:
    """Tiers ``big`` (2 A100), ``small`` (1 A30, two instances) and ``cpu``, with ``changes`` to them."""
    pool = yaml.safe_load((POOLS / "paper.yaml").read_text())
    tiers = [dict(pool["tiers"][k]) for k in (0, 2, 3)]
    for tier, (name, gpus), count in zip(tiers, GPUS.items(), (1, 2, 1), strict=True):
        tier.update(name=name, instances=count, gpus_per_instance=gpus or 1)
    (folder / "pool.yaml").write_text(yaml.safe_dump({**pool, "name": "three", "tiers": tiers}))
    command = [sys.executable, tier_server.__file__]
    how = {name: {"command": command, "cpus": 0.5, **changes.get(name, {})} for name in GPUS}
    how["cpu"]["gpus"] = 0
    launcher = {
        "kind": "ray",
        "address": address,
        "tiers": how,
        "grace_s": 1.0,
        "log_folder": str(folder / "node-logs"),
    }
    path = folder / "launch.yaml"
    path.write_text(yaml.safe_dump({"pool": "pool.yaml", "launcher": launcher, **document}))
    return ["launch", str(path), "--port", "0", "--endpoints-out", "endpoints.yaml"]


@pytest.fixture
def driving(nodes: RayNodes, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in nodes.variables.items():
        monkeypatch.setenv(name, value)


def told_by(url: str) -> dict[str, Any]:
    """Where a server says that it runs."""
    asked = {"model": "auto", "messages": [{"role": "user", "content": "where?"}], "max_tokens": 5}
    with httpx.Client(trust_env=False, timeout=30) as client:
        answer = client.post(f"{url}/chat/completions", json=asked)
    assert answer.status_code == 200, answer.text
    told: dict[str, Any] = json.loads(answer.json()["choices"][0]["message"]["content"])
    return told


def up(command: Running, folder: Path) -> dict[str, dict[str, Any]]:
    command.wait_for("Ctrl-C")
    document = yaml.safe_load((folder / "endpoints.yaml").read_text())
    return {name: told_by(each["url"]) for name, each in document["instances"].items()}


def all_gone(servers: dict[str, dict[str, Any]]) -> bool:
    return not any(lives(told[kind]) for told in servers.values() for kind in ("pid", "worker"))


@pytest.mark.usefixtures("driving")
def test_instances_are_placed_by_accelerator_and_gpus_and_end_with_the_launch(
    tmp_path: Path, nodes: RayNodes
) -> None:
    with running(launch_file(tmp_path, nodes.address, {}), tmp_path) as command:
        servers = up(command, tmp_path)
        assert set(servers) == {"big/0", "small/0", "small/1", "cpu/0"}
        assert servers["big/0"]["raylet"] == nodes.raylets["a100"]
        assert [servers[f"small/{k}"]["raylet"] for k in (0, 1)] == [nodes.raylets["a30"]] * 2
        assert len(servers["big/0"]["gpus"].split(",")) == 2
        assert {servers[f"small/{k}"]["gpus"] for k in (0, 1)} == {"0", "1"}
        assert servers["cpu/0"]["gpus"] == ""
        assert told_by(f"{command.url}/v1")["pid"] in {told["pid"] for told in servers.values()}
        command.process.send_signal(signal.SIGINT)
        assert command.process.wait(60.0) == 0
        assert all_gone(servers)
        assert "everything has ended" in command.said
        assert "Traceback" not in command.said
    logs = {path.name: path.read_text() for path in (tmp_path / "node-logs").glob("*.log")}
    assert set(logs) == {"big-0.log", "small-0.log", "small-1.log", "cpu-0.log"}
    assert f"worker {servers['cpu/0']['worker']}" in logs["cpu-0.log"]


@pytest.mark.usefixtures("driving")
def test_what_is_launched_does_not_outlive_a_killed_rbx(tmp_path: Path, nodes: RayNodes) -> None:
    with running([*launch_file(tmp_path, nodes.address, {}), "--no-gateway"], tmp_path) as command:
        servers = up(command, tmp_path)
        assert not all_gone(servers)
        command.process.kill()
        command.process.wait()
        wait_for(lambda: all_gone(servers), 40.0)


@pytest.mark.usefixtures("driving")
def test_a_tier_without_a_place_is_named_with_what_the_cluster_has(tmp_path: Path, nodes: RayNodes) -> None:
    arguments = [*launch_file(tmp_path, nodes.address, {"small": {"accelerator": "H100"}}), "--no-gateway"]
    with running([*arguments, "--set", "launcher.place_s=5"], tmp_path) as command:
        assert command.process.wait(60.0) == 1
        # On a busy machine the others may have found theirs no sooner.
        assert re.search(
            "[2-4] of 4 instances have found no place in the Ray cluster within 5 s", command.said
        )
        assert (
            "tier small: 2 of 2 instances lack a node with 0.5 CPU, 1 GPU, accelerator type H100; no node"
            in (command.said)
        )
        assert "127.0.0.1: 2 CPU, 4 GPU, accelerator type A100" in command.said
        assert "Traceback" not in command.said
    with running(arguments, tmp_path) as command:
        command.wait_for("asking the Ray cluster")
        command.process.send_signal(signal.SIGINT)
        assert command.process.wait(60.0) == 130
        assert "stopped before everything was up" in command.said


@pytest.mark.usefixtures("driving")
@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"flags": ["--fail"]}, ["cpu/0 ended with exit code 1 on node 127.0.0.1", "no such device: cuda:9"]),
        (
            {"command": ["vllm-of-nobody"]},
            ["tier cpu: there is no program 'vllm-of-nobody' on node 127.0.0.1"],
        ),
    ],
)
def test_a_server_that_does_not_start_is_told_with_the_end_of_its_log(
    tmp_path: Path, nodes: RayNodes, change: dict[str, Any], words: list[str]
) -> None:
    with running(
        [*launch_file(tmp_path, nodes.address, {"cpu": change}), "--no-gateway"], tmp_path
    ) as command:
        assert command.process.wait(60.0) == 1
        for each in words:
            assert each in command.said
        assert "Traceback" not in command.said


@pytest.mark.usefixtures("driving")
@pytest.mark.parametrize("keep_serving", [True, False])
def test_a_lost_node_is_told_and_left_out_or_ends_the_launch(
    tmp_path: Path, nodes: RayNodes, keep_serving: bool
) -> None:
    arguments = launch_file(tmp_path, nodes.address, {}, keep_serving=keep_serving)
    with running([*arguments, "--no-gateway"], tmp_path) as command:
        servers = up(command, tmp_path)
        nodes.remove("a30")
        try:
            for name in ("small/0", "small/1") if keep_serving else ("small/[01]",):
                command.wait_for(
                    rf"{name} is gone with its node 127\.0\.0\.1; .*log on node .* can't be read"
                )
            if keep_serving:
                assert lives(servers["big/0"]["pid"])
                command.process.send_signal(signal.SIGTERM)
            assert command.process.wait(60.0) == (0 if keep_serving else 1)
            wait_for(lambda: all_gone(servers), 40.0)
            assert "Traceback" not in command.said
        finally:
            nodes.add("a30")


def listening(pids: list[int]) -> set[str]:
    """Addresses (hexadecimal, as the kernel shows them) on which these processes wait for connections."""
    sockets: dict[str, str] = {}
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == "0A":
                sockets[f"socket:[{words[9]}]"] = words[1].partition(":")[0]
    found = set()
    for pid in pids:
        for descriptor in Path(f"/proc/{pid}/fd").glob("*"):
            with suppress(OSError):
                found.add(sockets.get(str(descriptor.readlink()), ""))
    return found - {""}


def test_a_cluster_of_the_launchs_own_keeps_to_the_loopback_interface_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("ray")
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache_home().parent))
    monkeypatch.setenv("HOME", str(tmp_path))
    anywhere = {"gpus": 0, "accelerator": "any", "cpus": 0.1}
    arguments = launch_file(tmp_path, "local", dict.fromkeys(GPUS, anywhere))
    with running([*arguments, "--no-gateway"], tmp_path) as command:
        servers = up(command, tmp_path)
        addresses = listening([command.process.pid, *command.left()])
        loopback = {"0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000"}
        assert addresses
        assert addresses <= loopback
        command.process.send_signal(signal.SIGINT)
        assert command.process.wait(60.0) == 0
        assert all_gone(servers)
        command.nothing_left()
        assert "Traceback" not in command.said
    assert not (tmp_path / ".ray").exists()


def test_a_node_needs_nothing_of_ours_but_the_standard_library() -> None:
    program = "import rbx.serve.launch.ray_actor"
    done = subprocess.run(
        [sys.executable, "-S", "-c", program],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr
