"""``/metrics`` of a mock instance, named as vLLM 0.32 names its series, plus how far it lags."""

from __future__ import annotations

from collections.abc import Iterator

from rbx.config.pool import Tier
from rbx.engine.telemetry import PoolTelemetry
from rbx.serve.mock.tally import Histogram, Tally

CONTENT_TYPE = "text/plain; version=1.0.0; charset=utf-8"
FINISH_REASONS = ("stop", "length", "abort", "error", "repetition")


def metrics_page(tier: Tier, seen: PoolTelemetry, tally: Tally, preemptions: int, now_s: float) -> str:
    """The whole page; ``seen`` has one instance, ``now_s`` is the event loop's time."""
    labels = f'engine="0",model_name="{_escaped(tier.model)}"'
    free, total = int(seen.free_blocks[0]), int(seen.total_blocks[0])
    lines = [
        *_gauge(
            "num_requests_running", "Number of requests in model execution batches.", labels, seen.running[0]
        ),
        *_gauge(
            "num_requests_waiting", "Number of requests waiting to be processed.", labels, seen.waiting[0]
        ),
        *_gauge(
            "kv_cache_usage_perc", "KV-cache usage. 1 means 100 percent usage.", labels, 1.0 - free / total
        ),
        *_counter(
            "prefix_cache_queries", "Prefix cache queries, in terms of number of queried tokens.", labels, 0
        ),
        *_counter("prefix_cache_hits", "Prefix cache hits, in terms of number of cached tokens.", labels, 0),
        *_counter("num_preemptions", "Cumulative number of preemption from the engine.", labels, preemptions),
        *_counter("prompt_tokens", "Number of prefill tokens processed.", labels, tally.prompt_tokens),
        *_counter(
            "generation_tokens", "Number of generation tokens processed.", labels, tally.generation_tokens
        ),
        "# HELP vllm:request_success_total Count of successfully processed requests.",
        "# TYPE vllm:request_success_total counter",
    ]
    for reason in FINISH_REASONS:
        sample = f'engine="0",finished_reason="{reason}",model_name="{_escaped(tier.model)}"'
        lines.append(f"vllm:request_success_total{{{sample}}} {float(tally.finished[reason])}")
    lines += _histogram(
        "time_to_first_token_seconds", "Time to first token in seconds.", labels, tally.ttft_s
    )
    lines += _histogram("e2e_request_latency_seconds", "E2E request latency in seconds.", labels, tally.e2e_s)
    lines += [
        "# HELP vllm:cache_config_info Information of the LLMEngine CacheConfig",
        "# TYPE vllm:cache_config_info gauge",
        f'vllm:cache_config_info{{block_size="{tier.limits.block_size}",enable_prefix_caching="False",engine="0",'
        f'num_gpu_blocks="{total + 1}"}} 1.0',
        "# HELP rbx_mock_lag_seconds Largest delay of a step's tokens behind the simulated time, of late.",
        "# TYPE rbx_mock_lag_seconds gauge",
        f"rbx_mock_lag_seconds {tally.lag.worst_s(now_s)}",
    ]
    return "\n".join(lines) + "\n"


def _gauge(name: str, about: str, labels: str, value: float) -> Iterator[str]:
    yield f"# HELP vllm:{name} {about}"
    yield f"# TYPE vllm:{name} gauge"
    yield f"vllm:{name}{{{labels}}} {float(value)}"


def _counter(name: str, about: str, labels: str, value: int) -> Iterator[str]:
    yield f"# HELP vllm:{name}_total {about}"
    yield f"# TYPE vllm:{name}_total counter"
    yield f"vllm:{name}_total{{{labels}}} {float(value)}"


def _histogram(name: str, about: str, labels: str, histogram: Histogram) -> Iterator[str]:
    yield f"# HELP vllm:{name} {about}"
    yield f"# TYPE vllm:{name} histogram"
    below = 0
    for bound, count in zip((*histogram.bounds, "+Inf"), histogram.counts, strict=True):
        below += count
        sample = labels.replace(",", f',le="{bound}",', 1)
        yield f"vllm:{name}_bucket{{{sample}}} {float(below)}"
    yield f"vllm:{name}_count{{{labels}}} {float(below)}"
    yield f"vllm:{name}_sum{{{labels}}} {histogram.total}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
