"""Exported figures against vLLM's own computation of them."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

pytest.importorskip("vllm")

from vllm.benchmarks import serve
from vllm.benchmarks.lib.endpoint_request_func import RequestFuncOutput

from rbx.sweep.interop.bench_metrics import PERCENTILES, BenchRequest, bench_metrics

pytestmark = pytest.mark.vllm


def drawn(seed: int, n: int = 200) -> list[BenchRequest]:
    rng = np.random.default_rng(seed)
    requests = []
    start = 5_000.0
    for number in range(n):
        start += float(rng.exponential(0.05))
        tokens = int(rng.integers(1, 60))
        gaps = tuple(rng.uniform(0.001, 0.08, tokens - 1).tolist())
        first = float(rng.uniform(0.01, 0.9))
        requests.append(
            BenchRequest(
                success=number % 7 != 3,
                prompt_len=int(rng.integers(1, 900)),
                output_tokens=tokens,
                start_time=start,
                ttft=first,
                latency=first + sum(gaps),
                itl=gaps,
                text="",
                error="",
                queue_time=0.0,
            )
        )
    return requests


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_every_figure_is_vllms_own(seed: int) -> None:
    requests = drawn(seed)
    outputs = [
        RequestFuncOutput(
            success=each.success,
            latency=each.latency,
            output_tokens=each.output_tokens,
            ttft=each.ttft,
            itl=list(each.itl),
            prompt_len=each.prompt_len,
            start_time=each.start_time,
        )
        for each in requests
    ]
    duration_s = 17.5
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs, _ = serve.calculate_metrics(
            [], outputs, duration_s, None, [float(each) for each in PERCENTILES], {}
        )
    ours = bench_metrics(requests, duration_s, None)
    plain = {
        "completed": theirs.completed,
        "failed": theirs.failed,
        "total_input_tokens": theirs.total_input,
        "total_output_tokens": theirs.total_output,
        "request_throughput": theirs.request_throughput,
        "output_throughput": theirs.output_throughput,
        "total_token_throughput": theirs.total_token_throughput,
        "max_output_tokens_per_s": theirs.max_output_tokens_per_s,
        "max_concurrent_requests": theirs.max_concurrent_requests,
    }
    for name in ("ttft", "tpot", "itl", "e2el"):
        for kind in ("mean", "median", "std"):
            plain[f"{kind}_{name}_ms"] = getattr(theirs, f"{kind}_{name}_ms")
        for percent, value in getattr(theirs, f"percentiles_{name}_ms"):
            plain[f"p{percent:g}_{name}_ms"] = value
    assert set(ours) == {*plain, "duration"}
    for key, value in plain.items():
        assert ours[key] == pytest.approx(value, rel=1e-9), key
