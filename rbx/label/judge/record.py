"""What a grid's provenance says of its judges, for the data set card."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rbx.config.labelling import JudgeSpec
from rbx.label.judge.rubric import RUBRICS, STEPS_VERSION

# What decides a judge's scores; where it runs is nobody's business.
SETTINGS = {"kind", "model", "provider", "temperature", "max_tokens", "response_format", "cut_characters"}


def judge_records(judges: Sequence[JudgeSpec]) -> dict[str, dict[str, Any]]:
    """By the judge's name: its settings, the version of the steps, and the text of criteria and steps."""
    rubrics = {rubric.name: {"criteria": rubric.criteria, "steps": list(rubric.steps)} for rubric in RUBRICS}
    return {
        judge.name: {
            **judge.model_dump(mode="json", include=SETTINGS),
            "steps_version": STEPS_VERSION,
            "rubrics": rubrics,
        }
        for judge in judges
    }
