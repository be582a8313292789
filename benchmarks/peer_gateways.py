"""Gateways of others, in front of the same servers: none is needed, each is measured where it is found."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.serving import Served, free_ports, serving


@dataclass(frozen=True)
class Peer:
    """A command that is looked for in the environment variable ``variable``, then in PATH."""

    name: str
    command: str
    variable: str
    install: str

    @property
    def found(self) -> str | None:
        """Its executable."""
        return shutil.which(os.environ.get(self.variable) or self.command)


VLLM_ROUTER = Peer("vllm-router", "vllm-router", "RBX_BENCH_VLLM_ROUTER", "pip install vllm-router")
LITELLM = Peer("LiteLLM proxy", "litellm", "RBX_BENCH_LITELLM", "pip install 'litellm[proxy]'")
PEERS = (VLLM_ROUTER, LITELLM)


@contextlib.contextmanager
def peer_gateway(peer: Peer, servers: Sequence[int], model: str, folder: Path) -> Iterator[Served]:
    """``peer``, one process of it, in front of ``servers``, which it serves as ``model``."""
    port, metrics_port = free_ports(2)
    words, environment = _litellm(port, servers, model, folder)
    if peer is VLLM_ROUTER:
        words, environment = _vllm_router(port, metrics_port, servers), {}
    with serving([peer.found, *words], port, environment) as served:
        yield served


def _vllm_router(port: int, metrics_port: int, servers: Sequence[int]) -> list[object]:
    """Round robin is its cheapest policy."""
    urls = [f"http://127.0.0.1:{server}" for server in servers]
    words = ["--host", "127.0.0.1", "--port", port, "--policy", "round_robin", "--log-level", "warning"]
    return [*words, "--prometheus-port", metrics_port, "--worker-urls", *urls]


def _litellm(
    port: int, servers: Sequence[int], model: str, folder: Path
) -> tuple[list[object], Mapping[str, str]]:
    """One worker, no database, no call home."""
    deployments = [
        {
            "model_name": model,
            "litellm_params": {
                "model": f"openai/{model}",
                "api_base": f"http://127.0.0.1:{server}/v1",
                "api_key": "none",
            },
        }
        for server in servers
    ]
    config = folder / "litellm.yaml"
    told = {"model_list": deployments, "litellm_settings": {"telemetry": False}}
    config.write_text(json.dumps(told), encoding="utf-8")
    words = ["--host", "127.0.0.1", "--port", port, "--config", config, "--num_workers", 1]
    environment = {
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "LITELLM_LOG": "ERROR",
        "LITELLM_MODE": "PRODUCTION",
        "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true",  # on the loopback interface alone
    }
    return words, environment
