"""The seven data sets in small: the hub's file names, columns and types, with texts of our own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from rbx.config.labelling import Prompts
from rbx.label.answer import Question
from rbx.label.prompts.collect import Collected, collect
from tests.grid.sources import write_jsonl

HARMS = (
    "animal_abuse",
    "child_abuse",
    "controversial_topics,politics",
    "discrimination,stereotype,injustice",
    "drug_abuse,weapons,banned_substance",
    "financial_crime,property_crime,theft",
    "hate_speech,offensive_language",
    "misinformation_regarding_ethics,laws_and_safety",
    "non_violent_unethical_behavior",
    "privacy_violation",
    "self_harm",
    "sexually_explicit,adult_content",
    "terrorism,organized_crime",
    "violence,aiding_and_abetting,incitement",
)
_TEXT = pa.string()
REWARD_BENCH = pa.schema(
    [
        ("prompt", _TEXT),
        ("chosen", _TEXT),
        ("chosen_model", _TEXT),
        ("rejected", _TEXT),
        ("rejected_model", _TEXT),
        ("subset", _TEXT),
        ("id", pa.int64()),
    ]
)
CODE_ULTRA_FEEDBACK = pa.schema(
    [
        ("instruction", _TEXT),
        ("preference", _TEXT),
        ("models", pa.list_(_TEXT)),
        ("responses", pa.list_(pa.struct([("model", _TEXT), ("response", _TEXT)]))),
        ("annotations", pa.list_(pa.struct([("model", _TEXT), ("rating", _TEXT), ("rationale", _TEXT)]))),
    ]
)
_MODERATION = pa.struct(
    [
        ("categories", pa.struct([("hate", pa.bool_()), ("violence/graphic", pa.bool_())])),
        ("category_scores", pa.struct([("hate", pa.float64()), ("violence/graphic", pa.float64())])),
        ("flagged", pa.bool_()),
    ]
)
LMSYS = pa.schema(
    [
        ("conversation_id", _TEXT),
        ("model", _TEXT),
        ("conversation", pa.list_(pa.struct([("content", _TEXT), ("role", _TEXT)]))),
        ("turn", pa.int64()),
        ("language", _TEXT),
        ("openai_moderation", pa.list_(_MODERATION)),
        ("redacted", pa.bool_()),
    ]
)
GSM8K = pa.schema([("question", _TEXT), ("answer", _TEXT)])
SQUAD = pa.schema(
    [
        ("id", _TEXT),
        ("title", _TEXT),
        ("context", _TEXT),
        ("question", _TEXT),
        ("answers", pa.struct([("text", pa.list_(_TEXT)), ("answer_start", pa.list_(pa.int32()))])),
    ]
)


def write_parquet(path: Path, schema: pa.Schema, rows: list[dict[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), path)
    return path


def reward_bench_row(subset: str, number: int, prompt: str, chosen: str = "chosen answer") -> dict[str, Any]:
    return {
        "prompt": prompt,
        "chosen": chosen,
        "chosen_model": "human",
        "rejected": "rejected answer",
        "rejected_model": "unknown",
        "subset": subset,
        "id": number,
    }


def code_row(instruction: str, *answers: tuple[str, str, str | None]) -> dict[str, Any]:
    """``answers``: model, response, rating."""
    return {
        "instruction": instruction,
        "preference": "code-readability",
        "models": [model for model, _, _ in answers],
        "responses": [{"model": model, "response": response} for model, response, _ in answers],
        "annotations": [
            {"model": model, "rating": rating, "rationale": "because"} for model, _, rating in answers
        ],
    }


def beaver_row(prompt: str, *harms: str) -> dict[str, Any]:
    return {
        "prompt": prompt,
        "response": "some answer",
        "category": {name: name in harms for name in HARMS},
        "is_safe": not harms,
    }


def mix_row(identity: str, instruction: str, given: str, output: str) -> dict[str, Any]:
    candidate = {"decoding_method": "top_p_sampling", "model": "m", "text": "t", "scores": {"bleu": 1.5}}
    return {"id": identity, "instruction": instruction, "input": given, "output": output} | {
        "candidates": [candidate]
    }


def lmsys_row(identity: str, *turns: tuple[str, str], language: str = "English") -> dict[str, Any]:
    moderation = {
        "categories": {"hate": False, "violence/graphic": False},
        "category_scores": {"hate": 0.1, "violence/graphic": 0.0},
        "flagged": False,
    }
    return {
        "conversation_id": identity,
        "model": "vicuna-13b",
        "conversation": [{"content": content, "role": role} for role, content in turns],
        "turn": len(turns) // 2,
        "language": language,
        "openai_moderation": [moderation for _ in turns],
        "redacted": False,
    }


def squad_row(context: str, question: str, *answers: str) -> dict[str, Any]:
    return {
        "id": "5733be284776f41900661182",
        "title": "Title",
        "context": context,
        "question": question,
        "answers": {"text": list(answers), "answer_start": [0 for _ in answers]},
    }


def write_gsm8k(folder: Path, questions: list[str]) -> Path:
    """GSM8K in its authors' own layout; returns the folder."""
    rows = [{"question": each, "answer": f"Some steps.\n#### {n}"} for n, each in enumerate(questions)]
    write_jsonl(folder / "train.jsonl.gz", rows)
    return folder


def prompts(*sources: dict[str, Any], **more: Any) -> Prompts:
    return Prompts.model_validate({"sources": list(sources)} | more)


def collected(*sources: dict[str, Any], **more: Any) -> Collected:
    return collect(prompts(*sources, **more), lambda _: None)


def by_source_id(found: Collected) -> dict[str | None, Question]:
    """Questions by their place in their source; no two share one."""
    questions = {question.source_id: question for question in found.questions}
    assert len(questions) == len(found.questions)
    return questions


def source_record(found: Collected, name: str) -> dict[str, Any]:
    record: dict[str, Any] = found.provenance["prompts"][name]
    return record
