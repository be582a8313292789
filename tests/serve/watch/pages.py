"""Pools and pages of ``/metrics`` for the tests of the watch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rbx.config.base import parse
from rbx.config.pool import Pool

METRICS = Path(__file__).parent / "metrics"


def small_pool(instances: int = 1, **limits: Any) -> Pool:
    """One tier of a model named tiny: 40 blocks of 16 tokens, four seats, 10 ms a step."""
    tier = {
        "name": "tier",
        "model": "tiny",
        "gpu": "GPU",
        "instances": instances,
        "price_in_usd_per_mtok": 0.1,
        "price_out_usd_per_mtok": 0.1,
        "tpot_prior_s": 0.01,
        "limits": {
            "max_num_seqs": 4,
            "max_num_batched_tokens": 64,
            "max_model_len": 512,
            "kv_blocks": 400,
            "async_scheduling": False,
            **limits,
        },
        "step_time": {
            "b0_s": 0.01,
            "b1_s_per_token": 1e-5,
            "b2_s_per_context_token": 0.0,
            "b3_s_per_attention_unit": 0.0,
            "source": "made up for a test",
        },
    }
    return parse(Pool, {"name": "small", "tiers": [tier]}, where="pool")


def metrics(
    running: float = 0,
    waiting: float = 0,
    usage: float = 0.0,
    *,
    counted: float | None = None,
    started_s: float | None = None,
) -> str:
    """A page as vLLM shows it, with as few series as a test needs."""
    labels = '{engine="0",model_name="tiny"}'
    lines = [
        f"vllm:num_requests_running{labels} {running}",
        f"vllm:num_requests_waiting{labels} {waiting}",
        f"vllm:kv_cache_usage_perc{labels} {usage}",
    ]
    if counted is not None:
        lines.append(f"vllm:generation_tokens_total{labels} {counted}")
    if started_s is not None:
        lines.append(f"process_start_time_seconds {started_s}")
    return "\n".join(lines) + "\n"
