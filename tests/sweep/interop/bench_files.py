"""Result files as ``vllm bench serve --save-detailed`` writes them, drawn at random."""

from __future__ import annotations

from typing import Any

import numpy as np


def drawn_result(seed: int, n: int = 40, **changes: Any) -> dict[str, Any]:
    """``n`` requests, every fifth of which failed."""
    rng = np.random.default_rng(seed)
    ok = np.arange(n) % 5 != 4
    tokens = np.where(ok, rng.integers(1, 30, n), 0)
    itls = [
        rng.uniform(0.005, 0.05, max(0, t - 1)).tolist() if good else []
        for t, good in zip(tokens, ok, strict=True)
    ]
    ttfts = np.where(ok, rng.uniform(0.02, 0.4, n), 0.0)
    starts = 1_000.0 + np.cumsum(rng.exponential(0.05, n))
    latencies = [float(first + sum(gaps)) for first, gaps in zip(ttfts, itls, strict=True)]
    duration = float(max(s + e for s, e in zip(starts, latencies, strict=True)) - starts[0])
    result = {
        "date": "20260102-030405",
        "backend": "openai-chat",
        "label": None,
        "model_id": "Qwen2.5-7B",
        "num_prompts": n,
        "request_rate": 20.0,
        "burstiness": 1.0,
        "max_concurrency": None,
        "duration": duration,
        "completed": int(ok.sum()),
        "failed": int((~ok).sum()),
        "total_input_tokens": 1,
        "input_lens": rng.integers(1, 500, n).tolist(),
        "output_lens": tokens.tolist(),
        "ttfts": ttfts.tolist(),
        "itls": itls,
        "latencies": latencies,
        "start_times": starts.tolist(),
        "queue_times": [0.0] * n,
        "generated_texts": [f"answer {k}" if good else "" for k, good in enumerate(ok)],
        "errors": ["" if good else "Service Unavailable" for good in ok],
        "mean_ttft_ms": 0.0,
    }
    return {**result, **changes}
