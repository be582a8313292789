"""The figures of ``vllm bench serve``, computed as it computes them (vLLM 0.32, ``calculate_metrics``)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

PERCENTILES = (50, 90, 95, 99)


@dataclass(frozen=True)
class BenchRequest:
    """One request in vLLM's words; seconds, ``start_time`` on any clock.

    ``itl`` are the gaps between the chunks of an answer, empty where they are not known.
    """

    success: bool
    prompt_len: int
    output_tokens: int
    start_time: float
    ttft: float
    latency: float
    itl: tuple[float, ...]
    text: str
    error: str
    queue_time: float


def bench_metrics(requests: Sequence[BenchRequest], duration_s: float, good: int | None) -> dict[str, float]:
    """Counts, throughputs and, of successful requests, spreads of TTFT, TPOT, ITL and E2EL.

    ``good`` requests met their targets; None without any. Figures of gaps between chunks are left out
    where no request has any.
    """
    done = [request for request in requests if request.success]
    total_input = sum(request.prompt_len for request in done)
    total_output = sum(request.output_tokens for request in done)
    tpot = [
        (request.latency - request.ttft) / (request.output_tokens - 1)
        for request in done
        if request.output_tokens > 1
    ]
    gaps = [gap for request in done for gap in request.itl]
    figures: dict[str, float] = {
        "duration": duration_s,
        "completed": len(done),
        "failed": len(requests) - len(done),
        "total_input_tokens": total_input,
        "total_output_tokens": total_output,
        "request_throughput": len(done) / duration_s,
        "output_throughput": total_output / duration_s,
        "total_token_throughput": (total_input + total_output) / duration_s,
    }
    if good is not None:
        figures["request_goodput"] = good / duration_s
    figures |= _spread("ttft", [request.ttft for request in done])
    figures |= _spread("tpot", tpot)
    if gaps:
        figures |= _spread("itl", gaps)
    figures |= _spread("e2el", [request.latency for request in done])
    if gaps:
        figures["max_output_tokens_per_s"] = _busiest_second(done)
    if done:
        figures["max_concurrent_requests"] = _most_at_once(done)
    return figures


def _spread(name: str, seconds: Sequence[float]) -> dict[str, float]:
    """Milliseconds; zeros where there is nothing, as vLLM writes them."""
    values = 1000.0 * np.array(seconds or [0.0])
    named = {
        f"mean_{name}_ms": float(values.mean()),
        f"median_{name}_ms": float(np.median(values)),
        f"std_{name}_ms": float(values.std()),
    }
    return named | {f"p{each}_{name}_ms": float(np.percentile(values, each)) for each in PERCENTILES}


def _busiest_second(done: Sequence[BenchRequest]) -> float:
    """Most chunks within a second of the run; vLLM calls them tokens."""
    begin_s = min(request.start_time for request in done)
    stamps = [
        request.start_time + request.ttft + np.concatenate([[0.0], np.cumsum(request.itl)]) - begin_s
        for request in done
    ]
    second = np.floor(np.concatenate(stamps)).astype(np.int64)
    seconds = _seconds(done)
    return float(np.bincount(second[(second >= 0) & (second < seconds)]).max(initial=0))


def _most_at_once(done: Sequence[BenchRequest]) -> int:
    """Most requests under way at any time of a second."""
    begin_s = min(request.start_time for request in done)
    change = np.zeros(_seconds(done) + 1, dtype=np.int64)
    for request in done:
        change[int(request.start_time - begin_s)] += 1
        change[int(request.start_time + request.latency - begin_s) + 1] -= 1
    return int(np.cumsum(change).max())


def _seconds(done: Sequence[BenchRequest]) -> int:
    begin_s = min(request.start_time for request in done)
    return int(np.ceil(max(request.start_time + request.latency for request in done) - begin_s)) + 1
