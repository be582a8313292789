"""``rbx launch`` over real vLLM servers: two models of random weights on this machine's CPU."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

pytest.importorskip("vllm")

from tests.serve.launch.processes import Running, running
from tests.vllm.live_server import distribution
from tests.vllm.tiny_model import make_model

pytestmark = pytest.mark.vllm

TEMPLATE = "{% for message in messages %}{{ message['content'] }} {% endfor %}"
LIMITS = {"max_num_seqs": 4, "max_num_batched_tokens": 512, "max_model_len": 512, "kv_blocks": 2000}
STEP = {
    "b0_s": 0.01,
    "b1_s_per_token": 1e-4,
    "b2_s_per_context_token": 1e-7,
    "b3_s_per_attention_unit": 1e-8,
    "source": "none; nothing here depends on it",
}


def tier(name: str, model: str) -> dict[str, Any]:
    prices = {"price_in_usd_per_mtok": 0.1, "price_out_usd_per_mtok": 0.1, "tpot_prior_s": 0.01}
    shape = {"name": name, "model": model, "gpu": "CPU", "instances": 1}
    return {**shape, **prices, "limits": LIMITS, "step_time": STEP}


def launch_file(folder: Path) -> str:
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
        "wide-cpu": str(make_model(folder / "wide", hidden=256, layers=2, context=1024)),
        "narrow-cpu": str(make_model(folder / "narrow", hidden=256, layers=1, context=1024)),
    }
    pool = {"name": "tiny", "tiers": [tier("wide-cpu", "wide"), tier("narrow-cpu", "narrow")]}
    (folder / "pool.yaml").write_text(yaml.safe_dump(pool, sort_keys=False))
    launch = {
        "pool": "pool.yaml",
        "keep_serving": True,
        "ready_s": 300.0,
        "launcher": {
            "kind": "local",
            "publish_state": True,
            "tiers": {name: {**how, "model": model} for name, model in models.items()},
        },
        "gateway": {"policy": {"kind": "passthrough", "dispatch": ["shortest-queue"]}},
    }
    (folder / "launch.yaml").write_text(yaml.safe_dump(launch))
    return "launch.yaml"


def ask(url: str, **changes: Any) -> httpx.Response:
    body = {"messages": [{"role": "user", "content": "w5 w6 w7"}], "max_tokens": 8, "ignore_eos": True}
    with httpx.Client(trust_env=False, timeout=120) as client:
        return client.post(f"{url}/v1/chat/completions", json={**body, **changes})


def engine_of(command: Running, model: str) -> int:
    for pid in command.left():
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        named = any(word == b"--served-model-name" for word in words) and model.encode() in words
        if named and not any(word.endswith(b"guard.py") for word in words):
            return pid
    raise AssertionError(f"no server of {model}")


def test_two_real_servers_behind_one_api_and_one_that_is_killed(tmp_path: Path) -> None:
    with running(["launch", launch_file(tmp_path), "--port", "0"], tmp_path, wait_s=400.0) as command:
        url = command.url
        command.wait_for("Ctrl-C")
        for model in ("wide", "narrow"):
            plain = ask(url, model=model)
            assert plain.status_code == 200, plain.text
            assert plain.headers["x-rbx-model"] == plain.json()["model"] == model
            assert plain.json()["usage"]["completion_tokens"] == 8
            streamed = ask(url, model=model, stream=True, stream_options={"include_usage": True})
            assert streamed.status_code == 200
            assert streamed.content.endswith(b"data: [DONE]\n\n")
            assert b'"completion_tokens":8' in streamed.content
        free = [ask(url, model="auto").headers["x-rbx-model"] for _ in range(4)]
        assert set(free) == {"wide", "narrow"}
        page = httpx.get(f"{url}/metrics", trust_env=False).text
        assert "rbx_requests_total{" in page

        os.kill(engine_of(command, "narrow"), signal.SIGKILL)
        command.wait_for("narrow-cpu/0 ended with exit code 137")
        after = [ask(url, model="auto") for _ in range(6)]
        assert [answer.status_code for answer in after] == [200] * 6
        assert {answer.headers["x-rbx-model"] for answer in after} == {"wide"}

        command.process.send_signal(signal.SIGINT)
        assert command.process.wait(60.0) == 0
        assert command.left() == []
        assert "Traceback" not in command.said.partition("ended with exit code")[0]
