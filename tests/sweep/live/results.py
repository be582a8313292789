"""Results of the load client as a test wants them, and readings of a small sweep."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from rbx.load.client.hashed import fingerprint
from rbx.load.client.result import LoadResult, not_sent
from rbx.sweep.context import SweepContext
from rbx.sweep.live.records import Answer, Reading
from rbx.sweep.live.texts import GridTexts
from rbx.sweep.workload import Arriving
from tests.sweep.scenes import small_context

TEXT = "The answer is 42."


def context(**changes: Any) -> SweepContext:
    live = {"target": {"kind": "gateway", "url": "http://127.0.0.1:8200"}}
    return small_context(engine="live", live=live, **changes)


def arriving(n: int, **columns: list[float]) -> Arriving:
    """Request k asks prompt k a second after the one before."""
    endless = [float("inf")] * n
    return Arriving(
        prompt=np.arange(n),
        scheduled_s=np.arange(n, dtype=float),
        budget_usd=np.array(columns.get("budget_usd", endless)),
        ttft_target_s=np.array(columns.get("ttft_target_s", endless)),
    )


def reading(n: int = 8, texts: dict[tuple[str, str], str] | None = None, **changes: Any) -> Reading:
    columns = changes.pop("columns", {})
    ignores_eos = changes.pop("ignores_eos", False)
    found = context(**changes)
    answers = {pair: fingerprint(text) for pair, text in (texts or {}).items()}
    prompts = {prompt_id: f"Prompt {prompt_id}?" for prompt_id in found.prompts.prompt_ids}
    return Reading("c0", found, arriving(n, **columns), GridTexts(prompts, answers), None, ignores_eos)


def ok(request: int, instance: str | None = "small_gpu/1", **changes: Any) -> LoadResult:
    """A whole answer of 20 tokens in 10 chunks: sent 1 ms late, 0.1 s to the first token, 10 ms between."""
    start_s = float(request)
    chunk_s = tuple(start_s + 0.101 + 0.01 * k for k in range(10))
    headers = {"x-rbx-config-version": "2-abc", "x-rbx-decision-mode": "policy", "x-rbx-attempts": "1"}
    if instance is not None:
        headers["x-rbx-instance"] = instance
    headers.update(changes.pop("headers", {}))
    given: dict[str, Any] = {
        "status": "ok",
        "http_status": 200,
        "sent_s": start_s + 0.001,
        "first_byte_s": start_s + 0.09,
        "first_token_s": chunk_s[0],
        "first_answer_s": chunk_s[0],
        "last_token_s": chunk_s[-1],
        "done_s": chunk_s[-1] + 0.005,
        "chunk_s": chunk_s,
        "chunk_tokens": (2,) * 10,
        "input_tokens": 50,
        "output_tokens": 20,
        "tokens_source": "usage",
        "finish_reason": "stop",
        "text": TEXT,
        "headers": headers,
        **changes,
    }
    return replace(not_sent(request, start_s), **given)


def answered(read: Reading, *results: LoadResult) -> list[Answer]:
    return read.answers(results)
