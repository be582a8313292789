"""A grid as labelling makes one, with every status that an answer or a label can have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rbx.config.base import Loaded, parse
from rbx.grid.build import Built, write_harvest
from rbx.grid.harvest import Harvest, LabelRow, PromptRow, ResponseRow, harvest_rows
from rbx.grid.spec import DatasetSpec

MODELS = ("m-1B", "m-7B")
JUDGE, RULE = "a" * 64, "b" * 64
CRITERIA = "Rate the answer.\nUse *all* of [0, 10]."


def spec(quality: str = "grade", **more: Any) -> dict[str, Any]:
    """The spec file's content."""
    endpoint = {"url": "http://judge.internal:8000/v1"}
    source = {
        "kind": "label",
        "prompts": {"sources": [{"kind": "gsm8k", "path": "somewhere/private"}]},
        "generation": {"max_tokens": 64},
        "models": [{"name": name, "endpoint": endpoint} for name in MODELS],
        "judges": [{"name": "llama", "model": "meta/Llama", "endpoint": endpoint}],
        "signals": [
            {"kind": "judge", "name": "grade", "judge": "llama"},
            {"kind": "numeric", "name": "exact"},
        ],
        "quality": quality,
    }
    return {"name": "labelled", "description": "A test.", "licence": "MIT", "source": source} | more


def prompt(number: int, **more: Any) -> PromptRow:
    """One prompt; the longer, the higher its number."""
    values: dict[str, Any] = {
        "key": f"k{number}",
        "prompt": f"question {number}",
        "source": "gsm8k" if number % 3 else "safety|<b>",
        "reference": f"{number}" if number % 2 else None,
        "is_harmful": number % 3 == 0,
        "input_tokens": 10 + number,
        "source_id": f"train/{number}",
        "tests": "assert f() == 1" if number == 1 else None,
    }
    return PromptRow(**values | more)


def answer(number: int, model: str, **more: Any) -> ResponseRow:
    """One answer, complete."""
    values: dict[str, Any] = {
        "key": f"k{number}",
        "model": model,
        "response": f"{model} says {number}",
        "output_tokens": 5 + number,
        "finish_reason": "stop",
        "generation_digest": f"{model}-digest",
        "status": "ok",
        "input_tokens": 30 + number,
        "tokens_source": "usage",
    }
    return ResponseRow(**values | more)


def failed(number: int, model: str, message: str) -> ResponseRow:
    """An answer that could not be had."""
    nothing = {"response": None, "output_tokens": None, "finish_reason": None, "tokens_source": None}
    return answer(number, model, **nothing, input_tokens=None, status="error", error=message)


def label(number: int, model: str, metric: str, score: float | None, **more: Any) -> LabelRow:
    """One label, scored or missing."""
    values: dict[str, Any] = {
        "key": f"k{number}",
        "model": model,
        "metric": metric,
        "score": score,
        "status": "missing" if score is None else "ok",
        "reason": None,
        "judge_digest": JUDGE if metric == "grade" else RULE,
    }
    return LabelRow(**values | more)


def every_status() -> Harvest:
    """Forty prompts.

    Of m-1B, answer 0 failed, 1 is empty, 2 was cut and recounted; m-7B has no answer 3, and the judge
    failed on its answer 4.
    """
    n = 40
    answers = {(number, model): answer(number, model) for number in range(n) for model in MODELS}
    answers[0, "m-1B"] = failed(0, "m-1B", "HTTP 500 <boom>\nat line 2")
    answers[1, "m-1B"] = answer(1, "m-1B", response="", output_tokens=0, status="empty")
    answers[2, "m-1B"] = answer(2, "m-1B", finish_reason="length", tokens_source="recount")
    del answers[3, "m-7B"]
    labels = []
    for number, model in answers:
        answered = answers[number, model].status == "ok"
        score = (number % 11) / 10 if answered else None
        cut = "input,reference" if number == 5 else "input" if number == 6 else None
        labels.append(label(number, model, "grade", score, cut=cut if answered else None))
        labels.append(label(number, model, "exact", float(number % 2) if answered else None))
    at = labels.index(label(4, "m-7B", "grade", 0.4))
    labels[at] = label(4, "m-7B", "grade", None, status="judge_failed", reason="prose", raw="I like it")
    provenance = {
        "prompts": {"gsm8k": {"hub": "openai/gsm8k", "revision": "e53f048", "licence": "MIT"}},
        "generation": {"max_tokens": 64, "frequency_penalty": 1.2},
        "judges": {
            "llama": {
                "model": "meta/Llama",
                "steps_version": "3",
                "rubrics": {"Quality": {"criteria": CRITERIA, "steps": ["Read.", "Rate."]}},
            }
        },
        "input_tokens": "estimated: characters / 4",
    }
    return harvest_rows([prompt(i) for i in range(n)], list(answers.values()), labels, provenance)


def write(harvest: Harvest, folder: Path, data: dict[str, Any] | None = None) -> Built:
    """Write the grid of a harvest."""
    parsed = parse(DatasetSpec, data or spec(), where="spec.yaml")
    return write_harvest(Loaded(parsed, Path("spec.yaml"), {}), harvest, folder, lambda phase: None)
