"""Two real vLLM servers and the gateway in front of them, brought up by ``rbx launch``."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import yaml

from tests.serve.launch.processes import Running, running
from tests.vllm.live_server import distribution
from tests.vllm.tiny_model import make_model
from tests.vllm.two_kinds import train
from tests.workplace import Workplace

WIDE, NARROW = "wide", "narrow"
TEMPLATE = "{% for message in messages %}{{ message['content'] }} {% endfor %}"
LIMITS = {
    "max_num_seqs": 4,
    "max_num_batched_tokens": 512,
    "max_model_len": 1024,
    "block_size": 128,
    "kv_blocks": 200,  # by default vLLM would make others of the same memory
    "async_scheduling": False,
}
STEP = {
    "b0_s": 0.01,
    "b1_s_per_token": 1e-4,
    "b2_s_per_context_token": 1e-7,
    "b3_s_per_attention_unit": 1e-8,
    "source": "none; nothing here depends on it",
}
# One failure opens a breaker, so that what a killed server leaves behind can be seen. The bounds on time
# are those of a machine that does much else meanwhile.
GATEWAY: dict[str, Any] = {
    "policy": {"kind": "routebalance", "weights": [[0.8, 0.1, 0.1]]},
    "slo": {"ttft_target": {}},
    "admission": {"max_in_flight": 64},  # more than the eight seats: some have to wait
    "deadlines": {"connect_s": 20.0, "encode_s": 30.0},
    "watch": {"timeout_s": 10.0, "max_age_s": 30.0},
    "breaker": {"failures": 1, "open_s": 300.0, "max_open_s": 300.0},
}


@dataclass(frozen=True)
class Launched:
    """The command under way and its gateway's address."""

    command: Running
    url: str

    def ask(self, prompt: str, **changes: Any) -> httpx.Response:
        """One chat request; eight tokens unless told otherwise."""
        body = {**asked(prompt), **changes}
        with httpx.Client(trust_env=False, timeout=120) as client:
            return client.post(f"{self.url}/v1/chat/completions", json=body, headers={"x-rbx-trace": "1"})

    def ask_all(self, prompts: list[str], **changes: Any) -> list[httpx.Response]:
        """All of them at once."""
        with ThreadPoolExecutor(len(prompts)) as threads:
            return list(threads.map(lambda prompt: self.ask(prompt, **changes), prompts))

    def metric(self, series: str) -> float:
        """The value of one line of ``/metrics``; 0 where there is none."""
        page = httpx.get(f"{self.url}/metrics", trust_env=False).text
        lines = [line.rpartition(" ") for line in page.splitlines()]
        return next((float(value) for name, _, value in lines if name == series), 0.0)

    def decide_by(self, policy: dict[str, Any]) -> None:
        """Put another policy in force."""
        with httpx.Client(trust_env=False, timeout=600) as client:  # the first replay is compiled
            answer = client.put(f"{self.url}/v1/config", json={**GATEWAY, "policy": policy})
        assert answer.status_code == 200, answer.text

    def engine(self, model: str) -> int:
        """The process that serves ``model``, not its guard."""
        for pid in self.command.left():
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            named = b"--served-model-name" in words and model.encode() in words
            if named and not any(word.endswith(b"guard.py") for word in words):
                return pid
        raise AssertionError(f"no server of {model}")


def asked(prompt: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": prompt}], "max_tokens": 8, "ignore_eos": True}


@contextmanager
def launched(folder: Path) -> Iterator[Launched]:
    """Models, grid, heads, servers and gateway; ``wide`` is good at sums, ``narrow`` at poems."""
    place = Workplace(folder)
    pool = {"name": "tiny", "tiers": [_tier("wide-cpu", WIDE), _tier("narrow-cpu", NARROW)]}
    (folder / "pool.yaml").write_text(yaml.safe_dump(pool, sort_keys=False))
    bundle = train(place, "pool.yaml", good_at_sums=WIDE, good_at_poems=NARROW)
    (folder / "launch.yaml").write_text(yaml.safe_dump({**_launch(folder), "bundle": bundle}))
    with running(["launch", "launch.yaml", "--port", "0"], folder, wait_s=700.0) as command:
        command.wait_for("Ctrl-C")
        yield Launched(command, command.url)


def _tier(name: str, model: str) -> dict[str, Any]:
    prices = {"price_in_usd_per_mtok": 0.1, "price_out_usd_per_mtok": 0.1, "tpot_prior_s": 0.01}
    shape = {"name": name, "model": model, "gpu": "CPU", "instances": 1}
    return {**shape, **prices, "limits": LIMITS, "step_time": STEP}


def _launch(folder: Path) -> dict[str, Any]:
    template = folder / "template.jinja"
    template.write_text(TEMPLATE)
    python_path = os.pathsep.join([str(distribution(folder)), str(Path(__file__).resolve().parents[2])])
    how = {
        "command": [sys.executable, "-W", "ignore", "-m", "vllm.entrypoints.cli.main"],
        "flags": ["--enforce-eager", "--chat-template", str(template)],
        "env": {"VLLM_CPU_KVCACHE_SPACE": "1", "PYTHONPATH": python_path, "OMP_NUM_THREADS": "1"},
        "gpus": 0,
    }
    models = {
        "wide-cpu": make_model(folder / WIDE, hidden=256, layers=2, context=1024),
        "narrow-cpu": make_model(folder / NARROW, hidden=256, layers=1, context=1024),
    }
    tiers = {name: {**how, "model": str(model)} for name, model in models.items()}
    return {
        "pool": "pool.yaml",
        "keep_serving": True,
        "ready_s": 600.0,
        "launcher": {"kind": "local", "publish_state": True, "tiers": tiers},
        "gateway": GATEWAY,
    }
