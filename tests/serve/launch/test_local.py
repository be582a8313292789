"""What a local launch starts: command lines, devices, ports."""

from __future__ import annotations

from pathlib import Path

import pytest

from rbx.config.base import parse
from rbx.config.launch import Launch, LocalLauncher, LocalTier
from rbx.config.pool import load_pool
from rbx.errors import ConfigError, ServerError
from rbx.serve.launch.devices import assigned_devices
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
