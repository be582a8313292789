"""Small source files in the layouts that rbx reads, as a user may have them."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

JsonRow = Mapping[str, Any]


def write_jsonl(path: Path, rows: Iterable[JsonRow]) -> Path:
    """JSON lines, gzip if the name says so."""
    text = "".join(json.dumps(row) + "\n" for row in rows)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text.encode(), mtime=0) if path.suffix == ".gz" else text.encode())
    return path


def zeroeval_prompt(key: str, prompt: str | None = None) -> dict[str, Any]:
    """One line of ``prompts.jsonl.gz``."""
    return {
        "prompt_id": key,
        "dataset": "crux",
        "question": "what?",
        "prompt": prompt or f"question {key}",
        "reference": "42",
        "prompt_tokens_qwen": 7,
    }


def zeroeval_answer(key: str, model: str, score: float | None, tokens: int = 20) -> dict[str, Any]:
    """One line of ``grid.jsonl.gz``."""
    return {
        "prompt_id": key,
        "model": model,
        "response": f"{model} on {key}",
        "score": score,
        "extracted_answer": "42",
        "output_tokens_qwen": tokens,
        "input_tokens_qwen": 35,
        "max_tokens": 100,
        "temperature": 0.0,
        "engine": "vllm",
    }


def write_zeroeval(folder: Path, prompts: Iterable[JsonRow], answers: Iterable[JsonRow]) -> Path:
    """A ZeroEval folder."""
    write_jsonl(folder / "prompts.jsonl.gz", prompts)
    write_jsonl(folder / "grid.jsonl.gz", answers)
    return folder


def routebalance_entry(score: float | None, tokens: int = 50, **more: Any) -> dict[str, Any]:
    """One model's entry of a RouteBalance row."""
    return {
        "output_length": tokens,
        "compression_ratio": 0.5,
        "is_truncated": False,
        "response": "text",
        "similarity_score": 0.75,
        "llm_judge_scores": {"deepeval-llama3.1-8b-it_reference": score},
        "reference_similarity": 0.5,
        "reference_score": 0.25,
    } | more


def routebalance_row(request_id: str, models: Any, prompt: str | None = None) -> dict[str, Any]:
    """One row of RouteBalance's estimator data."""
    return {
        "request_id": request_id,
        "prompt": prompt or f"prompt of {request_id}",
        "input_len": 12,
        "dataset": "squad",
        "source": f"squad/{request_id}",
        "is_harmful": False,
        "reference_text": "a reference",
        "models": models,
    }
