"""What a local launch starts: command lines, devices, ports."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rbx.config.base import parse
from rbx.config.launch import Launch, LocalLauncher, LocalTier
from rbx.config.pool import load_pool
from rbx.errors import ConfigError, ServerError
from rbx.serve.launch.devices import CORES, assigned_cores, assigned_devices, local_cores
from rbx.serve.launch.ports import bound, free_ports, is_loopback
from rbx.serve.launch.vllm_command import vllm_command
from tests.serve.launch.processes import POOLS, ROOT

PAPER = load_pool(POOLS / "paper.yaml").value


def words(how: LocalTier, tier: int = 0) -> list[str]:
    return vllm_command(PAPER.tiers[tier], how, "127.0.0.1", 8001, publish_state=False)


def test_the_tiers_limits_become_flags() -> None:
    line = " ".join(words(LocalTier(model="Qwen/Qwen2.5-72B-Instruct")))
    assert line.startswith("vllm serve Qwen/Qwen2.5-72B-Instruct --served-model-name Qwen2.5-72B ")
    blocks = PAPER.tiers[0].limits.kv_blocks + 1  # vLLM holds one back
    for flag in (
        "--max-model-len 8192",
        "--max-num-seqs 256",
        "--max-num-batched-tokens 2048",
        "--block-size 16",
        f"--num-gpu-blocks-override {blocks}",
    ):
        assert line.count(flag) == 1
    assert "--tensor-parallel-size 4" in line
    assert "--tensor-parallel-size" not in " ".join(words(LocalTier(), 2))
    assert "--tensor-parallel-size" not in " ".join(words(LocalTier(gpus=0)))


@pytest.mark.parametrize("flags", [("--max-num-seqs", "8"), ("--max-num-seqs=8",), ("--max_num_seqs", "8")])
def test_the_launch_files_flags_stand_above_the_limits(flags: tuple[str, ...]) -> None:
    line = words(LocalTier(flags=flags))
    assert "256" not in line
    assert line[-len(flags) :] == list(flags)
    assert "4" not in words(LocalTier(flags=("-tp", "2")))


@pytest.mark.parametrize(
    "flag", ["--num-gpu-blocks-override", "--kv-cache-memory-bytes", "--gpu-memory-utilization"]
)
def test_who_gives_the_memory_of_the_cache_gives_its_blocks(flag: str) -> None:
    line = words(LocalTier(flags=(flag, "7")))
    assert line.count("--num-gpu-blocks-override") == (flag == "--num-gpu-blocks-override")
    assert line[-2:] == [flag, "7"]


@pytest.mark.parametrize("flag", ["--port=1", "--port", "--served_model_name"])
def test_flags_that_rbx_sets_itself_are_refused(flag: str) -> None:
    document = {"pool": "p", "launcher": {"kind": "local", "tiers": {"a": {"flags": [flag]}}}}
    with pytest.raises(ConfigError, match=r"--(port|served-model-name) is set by rbx itself"):
        parse(Launch, document, where="launch")


def test_every_device_goes_to_one_instance() -> None:
    given = LocalLauncher(devices=tuple(range(28)))
    assigned = assigned_devices(PAPER, given)
    assert [len(devices) for devices in assigned] == [4] * 5 + [1] * 8
    flat = [device for devices in assigned for device in devices]
    assert sorted(map(int, flat)) == list(range(28))
    with pytest.raises(ConfigError, match=r"needs 28 GPUs and this machine is given 27"):
        assigned_devices(PAPER, LocalLauncher(devices=tuple(range(27))))
    on_cpu = LocalLauncher(tiers={tier.name: LocalTier(gpus=0) for tier in PAPER.tiers})
    assert assigned_devices(PAPER, on_cpu) == ((),) * 13


def test_devices_are_those_that_are_visible(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", ",".join(f"GPU-{k}" for k in range(30)))
    assert assigned_devices(PAPER, LocalLauncher())[0] == ("GPU-0", "GPU-1", "GPU-2", "GPU-3")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with pytest.raises(ConfigError, match="this machine has 0"):
        assigned_devices(PAPER, LocalLauncher())


def on_cpus(changes: Mapping[str, LocalTier] | None = None) -> LocalLauncher:
    bare = {tier.name: LocalTier(gpus=0) for tier in PAPER.tiers}
    return LocalLauncher(tiers={**bare, **(changes or {})})


@given(st.sets(st.integers(0, 255), min_size=1, max_size=64))
def test_servers_on_cpus_share_the_cores(cores: set[int]) -> None:
    assigned = assigned_cores(PAPER, on_cpus(), sorted(cores))
    parts = [{int(core) for core in (text or "").split(",")} for text in assigned]
    assert len(parts) == 13
    assert all(part and part <= cores for part in parts)
    if len(cores) >= 13:  # none has a core that another one has
        sizes = [len(part) for part in parts]
        assert sum(sizes) == len(set.union(*parts)) == max(13, len(cores) - 1)
        assert max(sizes) - min(sizes) <= 1
    else:
        assert all(len(part) == 1 for part in parts)
        assert set.union(*parts) == cores


def test_whose_cores_are_left_to_vllm() -> None:
    eight = tuple(range(8))
    assert assigned_cores(PAPER, LocalLauncher(devices=tuple(range(28))), eight) == (None,) * 13
    assert assigned_cores(PAPER, on_cpus(), ()) == (None,) * 13
    large, second = PAPER.tiers[0].name, PAPER.tiers[1].name
    told = {
        large: LocalTier(gpus=0, env={CORES: "0-3"}),
        second: LocalTier(gpus=0, flags=("-tp", "2")),
    }
    assigned = assigned_cores(PAPER, on_cpus(told), eight)
    for instance, part in zip(PAPER.instances, assigned, strict=True):
        assert (part is None) == (instance.tier.name in told)
    alone = LocalLauncher(tiers={large: LocalTier(gpus=0)}, devices=tuple(range(28)))
    one = PAPER.model_copy(update={"tiers": (PAPER.tiers[0].model_copy(update={"instances": 1}),)})
    assert assigned_cores(one, alone, eight) == (None,)


def test_local_cores_are_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(CORES, raising=False)
    assert set(local_cores()) <= os.sched_getaffinity(0)
    assert local_cores()
    monkeypatch.setenv(CORES, "0-3")  # whoever sets it for all means it
    assert local_cores() == ()


def test_ports() -> None:
    assert len(set(free_ports(50))) == 50
    if (outgoing := Path("/proc/sys/net/ipv4/ip_local_port_range")).exists():
        low, high = map(int, outgoing.read_text(encoding="ascii").split())
        assert not [port for port in free_ports(50) if low <= port <= high]  # no client's connection gets one
    with bound("127.0.0.1", 0) as sock:
        port = sock.getsockname()[1]
        with pytest.raises(ServerError, match=f"port {port} of 127.0.0.1 is in use"):
            bound("127.0.0.1", port)
    assert [is_loopback(host) for host in ("localhost", "127.0.0.2", "::1", "0.0.0.0", "gpu-1")] == [
        True,
        True,
        True,
        False,
        False,
    ]


@pytest.mark.parametrize("path", sorted((ROOT / "experiments/launch").glob("*.yaml")), ids=lambda p: p.name)
def test_the_examples_fit_their_pools(path: Path) -> None:
    from rbx.config.base import read_yaml

    plan = parse(Launch, read_yaml(path), where=str(path))
    plan.check(load_pool(ROOT / plan.pool).value)
    assert plan.gateway is not None
