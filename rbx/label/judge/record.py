"""What a grid's provenance says of its judges, for the data set card."""

from __future__ import annotations

from typing import Any

from rbx.config.labelling import JudgeSignal, Judging
from rbx.label.judge.rubric import RUBRICS, STEPS_VERSION

# What decides a judge's scores; where it runs is nobody's business.
SETTINGS = {"kind", "model", "provider", "temperature", "max_tokens", "response_format", "cut_characters"}


def judge_records(judging: Judging) -> dict[str, dict[str, Any]]:
    """Of each judge that a signal uses: settings, version of the steps, text of criteria and steps."""
    used = {signal.judge for signal in judging.signals if isinstance(signal, JudgeSignal)}
    rubrics = {rubric.name: {"criteria": rubric.criteria, "steps": list(rubric.steps)} for rubric in RUBRICS}
    return {
        judge.name: {
            **judge.model_dump(mode="json", include=SETTINGS),
            "steps_version": STEPS_VERSION,
            "rubrics": rubrics,
        }
        for judge in judging.judges
        if judge.name in used
    }
