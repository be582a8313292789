"""Cut answers graded again: as if each part of a text had been graded, and only where a rule can."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rbx.config.base import parse
from rbx.config.experiment import Experiment, Workload
from rbx.errors import ConfigError, DatasetError
from rbx.grid.store import open_view
from rbx.grid.zeroeval_rule import grade
from rbx.heads.predictions import N_LENGTH_BUCKETS, Predictions
from rbx.sweep import cut_answers
from rbx.sweep.cut_answers import GradedAgain, grade_again
from rbx.sweep.prompts import build_prompt_table, load_prompt_table, save_prompt_table
from tests.grid.building import build, zeroeval
from tests.grid.sources import write_zeroeval, zeroeval_answer, zeroeval_prompt
from tests.sweep import scenes
from tests.sweep.scenes import small_context
from tests.sweep.test_scoring import records_of
from tests.workplace import EXPERIMENT

RIGHT = '{"reasoning": "six by seven", "answer": "42"}'
RESPONSES = {
    ("a", "m1"): (RIGHT, 1.0, 17),
    ("a", "m2"): ('{"answer": "7", "reasoning": "at once"}', 0.0, 12),
    ("b", "m1"): ('{"answer": "42", "reasoning": "at once, and much said after it"}', 1.0, 20),
    ("b", "m2"): ("it is 42", 0.0, 5),
    ("c", "m1"): ("it is 42", 1.0, 5),  # a label that the rule does not give
    ("c", "m2"): (RIGHT, None, 17),
}


def write_grid(folder: Path, *, source: str = "crux", texts: bool = True) -> Path:
    answers = [
        {**zeroeval_answer(key, model, score, tokens), "response": text if texts else ""}
        for (key, model), (text, score, tokens) in RESPONSES.items()
    ]
    prompts = [{**zeroeval_prompt(key), "dataset": source} for key in "abc"]
    build(zeroeval(write_zeroeval(folder / "source", prompts, answers)), folder / "grid")
    return folder / "grid"


def graded(grid: Path, **workload: Any) -> GradedAgain:
    data: dict[str, Any] = {**EXPERIMENT, "grid": str(grid)}
    data["workload"] = data["workload"] | {"split": "all", "cut_quality": "rescore"} | workload
    view, rows = open_view(grid), np.arange(3)
    known = np.ones((3, 2))
    predicted = Predictions(
        view.models, known, known, np.full((3, 2, N_LENGTH_BUCKETS), 1 / N_LENGTH_BUCKETS)
    )
    prompts = build_prompt_table(view, rows, view.models, predicted)
    return grade_again(parse(Experiment, data, where="test"), view, rows, prompts)


def test_each_cut_is_worth_what_its_text_is_graded(tmp_path: Path) -> None:
    grid = write_grid(tmp_path)
    again = graded(grid)
    view, answered = open_view(grid), again.answered_tokens
    assert answered is not None
    seen: set[float] = set()
    for p, row in enumerate(view.prompts):
        for m, model in enumerate(view.models):
            text, label, tokens = RESPONSES[row.removeprefix("question "), model]
            if (row, model) == ("question c", "m1") or label is None:
                assert np.isnan(answered[p, m])
                continue
            for delivered in range(1, tokens):
                worth = label if delivered >= answered[p, m] else 0.0
                assert worth == grade(text[: len(text) * delivered // tokens], "42", "crux")
                seen.add(worth)
    assert seen == {0.0, 1.0}
    assert again.noted == {"graded_again": {"labels": 5, "agreeing": 4}}


@given(st.integers(1, 60), st.integers(0, 30), st.integers(0, 30))
def test_tokens_and_characters_never_disagree(tokens: int, before: int, after: int) -> None:
    text = "x" * before + '"answer": "42"' + "y" * after
    needed = cut_answers.tokens_until(text, tokens)
    for delivered in range(1, tokens):
        right = grade(text[: len(text) * delivered // tokens], "42", "crux")
        assert (delivered >= needed) == (right == 1.0)


def test_what_has_no_rule_is_refused_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="no rule grades answers of poems; keep workload"):
        graded(write_grid(tmp_path / "poems", source="poems"))
    with pytest.raises(DatasetError, match="holds no answers' texts; take workload"):
        graded(write_grid(tmp_path / "empty", texts=False))
    with pytest.raises(ConfigError, match="give either cut_quality or cut_quality_exponent"):
        parse(
            Workload,
            {"rates_per_s": [1.0], "cut_quality": "rescore", "cut_quality_exponent": 1.0},
            where="test",
        )


def test_live_answers_are_judged_and_not_graded_again() -> None:
    live = {"engine": "live", "live": {"target": {"kind": "gateway", "url": "http://localhost:1"}}}
    data: dict[str, Any] = {**EXPERIMENT, **live, "policies": [{"kind": "passthrough"}]}
    data["workload"] = {"rates_per_s": [1.0], "cut_quality": "rescore"}
    with pytest.raises(
        ConfigError, match="cut_quality is of recorded answers; live ones are new: judge them"
    ):
        parse(Experiment, data, where="test")


def test_labels_of_a_judge_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    grid = write_grid(tmp_path)
    monkeypatch.setattr(cut_answers, "RULE_DIGEST", "another rule")
    with pytest.raises(DatasetError, match="labels of quality were not made by the rule of ZeroEval's grids"):
        graded(grid)


def test_without_the_setting_nothing_is_read(tmp_path: Path) -> None:
    assert graded(write_grid(tmp_path), cut_quality=None) == GradedAgain(None, {})


def test_records_of_a_cell_name_what_was_graded_again() -> None:
    context = small_context(workload={"max_output_tokens": 50, "cut_quality": "rescore"})
    prompts = context.prompts
    rng = np.random.default_rng(3)
    answered = np.ceil(prompts.output_tokens * rng.uniform(0.05, 1.0, prompts.score.shape))
    answered[rng.random(answered.shape) < 0.1] = np.nan
    _, rows = records_of(replace(context, prompts=replace(prompts, answered_tokens=answered)))
    seen = set()
    for row in rows:
        p, m = prompts.prompt_ids.index(row["prompt_id"]), prompts.models.index(row["model"])
        label, wanted, needed = prompts.score[p, m], prompts.output_tokens[p, m], answered[p, m]
        told = (row["quality"], row["quality_source"], row["quality_status"])
        if wanted <= 50:
            expected = (None, "lookup", "missing") if np.isnan(label) else (label, "lookup", "ok")
            case = "whole"
        elif np.isnan(label) or np.isnan(needed):
            expected, case = (None, "lookup", "truncated"), "unknown"
        elif needed <= 50:
            expected, case = (label, "rescored", "ok"), "answered"
        else:
            expected, case = (0.0, "rescored", "ok"), "failed"
        assert told == expected
        seen.add(case)
    assert seen == {"whole", "unknown", "answered", "failed"}


def test_what_was_found_is_read_back_from_the_sweep(tmp_path: Path) -> None:
    prompts = small_context().prompts
    save_prompt_table(prompts, tmp_path)
    assert load_prompt_table(tmp_path, scenes.MODELS).answered_tokens is None
    answered = np.where(np.isnan(prompts.score), np.nan, prompts.output_tokens)
    save_prompt_table(replace(prompts, answered_tokens=answered), tmp_path)
    np.testing.assert_array_equal(load_prompt_table(tmp_path, scenes.MODELS).answered_tokens, answered)
