"""Source ``zeroeval``: ``prompts.jsonl.gz`` and ``grid.jsonl.gz``, answers verified as right or wrong."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from rbx.config.base import digest
from rbx.errors import ConfigError, DatasetError
from rbx.grid.files import read_rows, sha256_of
from rbx.grid.harvest import Harvest, LabelRow, PromptRow, ResponseRow, Say, harvest_rows
from rbx.grid.schema import DEFAULT_METRIC
from rbx.grid.spec import ZeroEvalSource
from rbx.grid.values import Row

PROMPTS_FILE = "prompts.jsonl.gz"
GRID_FILE = "grid.jsonl.gz"
RULE_DIGEST = digest({"judge": "zeroeval", "rule": "first JSON answer, string or first-number match"})


@dataclass
class _Answers:
    responses: list[ResponseRow] = field(default_factory=list)
    labels: list[LabelRow] = field(default_factory=list)
    input_tokens: dict[str, list[int]] = field(default_factory=dict)


def read_zeroeval(spec: ZeroEvalSource, say: Say) -> Harvest:
    """Read both files; raises ``ConfigError`` without a folder, ``DatasetError`` for any bad row.

    A prompt's input tokens are the median over its models, which add their own chat templates.
    """
    if spec.path is None:
        raise ConfigError("source.path is not set: give the folder with --set source.path=DIR")
    paths = [spec.path / PROMPTS_FILE, spec.path / GRID_FILE]
    for path in paths:
        if not path.is_file():
            raise DatasetError(
                f"{path}: no such file; source.path must be a folder with {PROMPTS_FILE} and {GRID_FILE}"
            )
    say(f"reading {paths[0].name}")
    questions = {row.text("prompt_id"): row for row in _distinct(paths[0])}
    say(f"reading {paths[1].name}")
    answers = _read_answers(paths[1], set(questions), set(spec.models))
    prompts = [_prompt(key, row, answers.input_tokens.get(key)) for key, row in questions.items()]
    provenance = {
        "files": {path.name: sha256_of(path) for path in paths},
        "input_tokens": "median over models of the Qwen token count with the chat template",
        "output_tokens": "Qwen token count of the answer",
    }
    return harvest_rows(prompts, answers.responses, answers.labels, provenance)


def _distinct(path: Path) -> Iterator[Row]:
    first: dict[str, int] = {}
    for row in read_rows(path):
        key = row.text("prompt_id")
        if key in first:
            raise row.fault("prompt_id", f"{key!r} was given in row {first[key]} already")
        first[key] = row.number
        yield row


def _prompt(key: str, row: Row, input_tokens: list[int] | None) -> PromptRow:
    return PromptRow(
        key=key,
        prompt=row.text("prompt"),
        source=row.text("dataset"),
        reference=row.optional_text("reference"),
        is_harmful=False,
        input_tokens=(
            int(statistics.median_low(input_tokens)) if input_tokens else row.count("prompt_tokens_qwen")
        ),
        source_id=key,
    )


def _read_answers(path: Path, keys: set[str], wanted: set[str]) -> _Answers:
    answers = _Answers()
    seen: set[str] = set()
    digests: dict[tuple[str, str, int, str], str] = {}
    for row in read_rows(path):
        key, model = row.text("prompt_id"), row.text("model")
        if key not in keys:
            raise row.fault("prompt_id", f"{key!r} is not in {PROMPTS_FILE}")
        seen.add(model)
        if wanted and model not in wanted:
            continue
        max_tokens, engine = row.count("max_tokens"), row.text("engine")
        recipe = (model, engine, max_tokens, str(row.require("temperature")))
        if recipe not in digests:
            digests[recipe] = digest(["zeroeval", *recipe])
        answers.input_tokens.setdefault(key, []).append(row.count("input_tokens_qwen"))
        answers.responses.append(_response(row, key, model, max_tokens, digests[recipe]))
        answers.labels.append(_label(row, key, model))
    if absent := wanted - seen:
        raise DatasetError(
            f"{path}: no answers of {', '.join(sorted(absent))}; it has {', '.join(sorted(seen))}"
        )
    return answers


def _response(row: Row, key: str, model: str, max_tokens: int, generation: str) -> ResponseRow:
    text, tokens = row.optional_text("response") or "", row.count("output_tokens_qwen")
    finish = "length" if tokens >= max_tokens else "stop"
    return ResponseRow(key, model, text, tokens, finish, generation, "ok" if text else "empty")


def _label(row: Row, key: str, model: str) -> LabelRow:
    row.require("score")
    score = row.optional_score("score")
    reason = "no answer was found in the response" if row.values.get("extracted_answer") is None else None
    status = "ok" if score is not None else "missing"
    return LabelRow(key, model, DEFAULT_METRIC, score, status, reason, RULE_DIGEST)
