"""The study as a whole: what is held out, what is reported, what is recommended and what refused."""

from __future__ import annotations

import dataclasses
import io
import json
import re
import statistics
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from rbx.engine.step_trace import StepTrace, read_step_trace
from rbx.errors import DatasetError, UsageError
from rbx.heads.step_time.accuracy import resampled_mape, simplest_as_good
from rbx.heads.step_time.design import KINDS, usable_steps
from rbx.heads.step_time.report import StepTimeReport
from rbx.heads.step_time.study import FitOptions, fit_step_time, held_out_steps
from rbx.heads.step_time.tables import step_time_tables
from tests.heads import step_traces
from tests.heads.step_traces import Scene, draw

OPTIONS = FitOptions(block_s=2.0)
NOISY = Scene(n=4000, noise=0.05, stall_share=0.005)


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> StepTrace:
    return draw(tmp_path_factory.mktemp("traces"), step_traces.A, NOISY).trace


@pytest.fixture(scope="module")
def report(trace: StepTrace) -> StepTimeReport:
    return fit_step_time([trace], OPTIONS)


def test_whole_blocks_are_held_out(trace: StepTrace) -> None:
    steps = usable_steps([trace], OPTIONS.block_s)
    held_out = held_out_steps([trace], steps, OPTIONS)
    test, train = set(steps.block[held_out]), set(steps.block[~held_out])
    assert test.isdisjoint(train)
    assert len(test) == round(0.25 * len(test | train))
    # A block is a stretch of time: its steps start within two seconds.
    for block in test:
        assert np.ptp(trace.start_s[1:][steps.block == block]) < 2.0


def test_other_seeds_hold_out_other_blocks_and_the_same_seed_the_same(trace: StepTrace) -> None:
    first, again = (fit_step_time([trace], OPTIONS) for _ in range(2))
    assert first == again
    assert first.model("A") != fit_step_time([trace], dataclasses.replace(OPTIONS, seed=1)).model("A")


def test_all_rows_are_accounted_for(report: StepTimeReport, trace: StepTrace) -> None:
    assert report.n_first + report.n_train + report.n_test == len(trace) == report.traces[0].steps
    for model in report.models:
        counts = [model.on(kind).n for kind in KINDS]
        assert sum(counts) == model.on("all").n == report.n_test
        assert min(counts) > 30
        assert 0 < model.on("all").n - model.on("all but stalls").n < 0.02 * report.n_test


def test_a_handful_of_blocks_gives_no_interval(trace: StepTrace) -> None:
    length_s = float(np.ptp(trace.start_s))
    report = fit_step_time([trace], dataclasses.replace(OPTIONS, block_s=length_s / 8))
    assert report.blocks_test == 2
    assert all(model.mape_low is None and model.mape_high is None for model in report.models)
    table = next(iter(step_time_tables(report)))
    assert "2 block(s) held out, at least 5 are needed" in str(table.caption)


def test_errors_are_those_of_the_noise(report: StepTimeReport) -> None:
    # E|ratio − 1| of a log-normal with σ = 0.05 is close to σ·√(2/π) = 4 %.
    model = report.model("A")
    clean = model.on("all but stalls")
    assert clean.mape == pytest.approx(0.05 * np.sqrt(2 / np.pi), rel=0.06)
    assert clean.bias == pytest.approx(0.05**2, abs=0.003)
    assert clean.total_bias == pytest.approx(0.0, abs=0.004)
    assert model.mape_low is not None
    assert model.mape_high is not None
    assert model.mape_low < model.mape < model.mape_high
    assert model.mape_high - model.mape_low < 0.01
    total = model.on("all").total_bias
    assert total is not None
    assert total < -0.03  # what the stalls cost stands in the total


def test_figures_are_those_of_a_plain_reading_of_the_trace(trace: StepTrace, report: StepTimeReport) -> None:
    steps = usable_steps([trace], OPTIONS.block_s)
    rows = np.flatnonzero(held_out_steps([trace], steps, OPTIONS)) + 1
    model = report.model("A")
    b0, b1, b2, b3 = (item.seconds for item in model.coefficients)
    assert trace.context is not None
    errors: dict[str, list[float]] = {kind: [] for kind in KINDS}
    for row in rows.tolist():
        prompt, decodes = int(trace.prefill_tokens[row]), int(trace.decodes[row])
        work = (
            trace.context.prefill_cross_tokens[row]
            + (trace.context.prefill_chunk_squared_tokens[row] + prompt) / 2
        )
        predicted = b0 + b1 * (prompt + decodes) + b2 * trace.context.decode_context_tokens[row] + b3 * work
        measured = trace.end_s[row] - max(trace.start_s[row], trace.end_s[row - 1])
        kind = "decode-only" if prompt == 0 else "mixed" if decodes else "prefill-only"
        errors[kind].append(float(predicted / measured - 1.0))
    for kind, found in errors.items():
        row_of_kind = model.on(kind)
        assert row_of_kind.n == len(found) > 30
        assert row_of_kind.mape == pytest.approx(statistics.fmean(map(abs, found)), rel=1e-9)
        assert row_of_kind.median_ape == pytest.approx(statistics.median(map(abs, found)), rel=1e-9)
        assert row_of_kind.bias == pytest.approx(statistics.fmean(found), rel=1e-9)


def test_the_reach_of_the_fit_is_told(report: StepTimeReport, trace: StepTrace) -> None:
    steps = usable_steps([trace], OPTIONS.block_s)
    train = steps.at(~held_out_steps([trace], steps, OPTIONS))
    assert report.notes[0].startswith(f"a fitted step has at most {int(train.decodes.max())} decodes, ")
    assert f"{int(train.prefill_tokens.max()):,} prompt tokens" in report.notes[0]


def test_stalls_are_counted_apart(report: StepTimeReport) -> None:
    assert report.stalls.share == pytest.approx(0.005, rel=0.3)
    assert report.stalls.mean_s == pytest.approx(0.3, rel=0.15)
    total = report.model("A").on("all").total_bias
    assert total is not None
    # What stalls add to the time is what the models miss of it, on the held-out blocks as on all.
    assert report.stalls.time_share == pytest.approx(-total, abs=0.03)
    per_step_ms = 1e3 * 0.005 * 0.3
    (note,) = (note for note in report.notes if note.startswith("stalls take"))
    assert float(note.split(" of the time, ")[1].split(" ms")[0]) == pytest.approx(per_step_ms, rel=0.35)


@pytest.mark.parametrize("feature_set", ["A", "B", "C"])
def test_the_simplest_model_that_fits_is_recommended(feature_set: str, tmp_path: Path) -> None:
    model = {"A": step_traces.A, "B": step_traces.B, "C": step_traces.C}[feature_set]
    drawn = draw(tmp_path, model, dataclasses.replace(NOISY, seed=3))
    found = fit_step_time([drawn.trace], OPTIONS)
    assert [fit.feature_set for fit in found.models] == ["C", "A", "B"]
    assert found.recommended == feature_set
    assert found.model(feature_set).mape < 0.05
    assert found.model(feature_set).unidentified == () or feature_set == "C"


def test_the_choice_needs_a_difference_that_is_sure_and_matters() -> None:
    rng = np.random.default_rng(0)
    block = np.repeat(np.arange(20), 50)
    base = rng.random(1000) * 0.1
    same = base + rng.normal(0, 0.001, 1000)
    slightly, much = base * 0.995, base * 0.5
    for errors, chosen in [((base, same), 0), ((base, slightly), 0), ((base, much), 1), ((much, base), 0)]:
        resampled = resampled_mape(errors, block, np.random.default_rng(1))
        assert simplest_as_good(np.array([item.mean() for item in errors]), resampled) == chosen
    assert resampled[0].mean() == pytest.approx(much.mean(), rel=0.02)


def test_without_context_sums_only_c_is_fitted(tmp_path: Path) -> None:
    drawn = draw(tmp_path, step_traces.A, dataclasses.replace(NOISY, contexts=False))
    found = fit_step_time([drawn.trace], OPTIONS)
    assert [model.feature_set for model in found.models] == ["C"] == [found.recommended]
    assert any("only model C could be fitted" in note for note in found.notes)
    with pytest.raises(UsageError, match="model A was not fitted: the trace has no context sums"):
        found.model("A")


def test_what_a_trace_can_not_tell_is_said_in_words(tmp_path: Path) -> None:
    table = draw(tmp_path, step_traces.A, NOISY).trace
    # Every prompt in one chunk of 256 tokens, nothing computed before.
    prefill = np.where(table.prefill_tokens > 0, 256, 0)
    assert table.context is not None
    context = dataclasses.replace(
        table.context, prefill_chunk_squared_tokens=prefill**2, prefill_cross_tokens=0 * prefill
    )
    uniform = dataclasses.replace(table, prefill_tokens=prefill, context=context)
    model = fit_step_time([uniform], OPTIONS).model("B")
    absent, together = model.unidentified[:2]
    assert "cross_s_per_token_pair is 0: no step has chunk tokens × context" in absent
    assert "prefill_s_per_token (prefill tokens) and chunk_s_per_squared_token" in together
    assert "no step tells them apart" in together
    assert model.condition_number > 1e8


def test_a_coefficient_held_at_zero_is_told_from_a_measured_one(tmp_path: Path) -> None:
    # Longer chunks cost less a token: the best squared term is below 0, where no price may be.
    concave = (*step_traces.B[:4], -3e-9, step_traces.B[5])
    found = fit_step_time([draw(tmp_path, concave, NOISY).trace], OPTIONS)
    held = {item.name: item.measured for item in found.model("B").coefficients}
    assert held.pop("chunk_s_per_squared_token") is False
    assert all(held.values())
    said = [text for text in found.model("B").unidentified if "chunk_s_per_squared_token" in text]
    assert len(said) == 1
    assert "is held at 0, not measured" in said[0]
    assert "squared chunk lengths" in said[0]
    console = Console(width=80, file=io.StringIO())
    for table in step_time_tables(found):
        console.print(table)
    assert isinstance(console.file, io.StringIO)
    assert re.search(r"chunk_s_per_squared_token +0 +not measured", console.file.getvalue())
    assert "0 to 0" not in console.file.getvalue()


def test_there_may_be_as_many_blocks_as_steps(trace: StepTrace, report: StepTimeReport) -> None:
    done: list[tuple[str, int, int]] = []
    found = fit_step_time([trace], FitOptions(block_s=1e-3), lambda *report: done.append(report))
    assert found.blocks_train + found.blocks_test > 3900  # nearly one a step
    assert [(at, of) for _, at, of in done] == [(at, 4) for at in range(5)]
    # Steps do not depend on each other here: how they are grouped must not matter much.
    for item, coarse in zip(found.model("A").coefficients, report.model("A").coefficients, strict=True):
        assert item.low < item.seconds < item.high
        assert item.seconds == pytest.approx(coarse.seconds, rel=0.04)
        assert item.high - item.low == pytest.approx(coarse.high - coarse.low, rel=0.4)


def test_decode_only_traces_give_a_model_and_say_what_it_lacks(tmp_path: Path) -> None:
    table = draw(tmp_path, step_traces.A, NOISY).trace
    assert table.context is not None
    nothing = 0 * table.prefill_tokens
    context = dataclasses.replace(
        table.context, prefill_chunk_squared_tokens=nothing, prefill_cross_tokens=nothing
    )
    bare = dataclasses.replace(
        table, prefill_tokens=nothing, decodes=np.maximum(table.decodes, 1), context=context
    )
    found = fit_step_time([bare], OPTIONS)
    assert found.model("C").coefficients[1].seconds == 0.0
    assert "prefill_s_per_token is 0: no step has prefill tokens" in found.model("C").unidentified[0]
    assert found.model("C").on("mixed").mape is None
    assert {note for note in found.notes if "too few to judge" in note} == {
        f"0 held-out steps are {kind}: too few to judge any model on them" for kind in KINDS[1:]
    }
    json.dumps(found.as_json(), allow_nan=False)
    assert found.missing == ("no fitted step has prompt tokens, which would then cost nothing",)


def test_several_traces_are_fitted_together_and_never_share_a_block(tmp_path: Path) -> None:
    parts = [draw(tmp_path, step_traces.A, Scene(n=900, seed=seed), f"t{seed}").trace for seed in range(3)]
    steps = usable_steps(parts, OPTIONS.block_s)
    assert len(steps) == 3 * 899
    owner = np.repeat(np.arange(3), 899)
    for block in np.unique(steps.block):
        assert len(set(owner[steps.block == block])) == 1
    found = fit_step_time(parts, OPTIONS)
    assert found.n_first == 3
    np.testing.assert_allclose([c.seconds for c in found.model("A").coefficients], step_traces.A, rtol=1e-6)
    with pytest.raises(DatasetError, match="the same steps as"):
        fit_step_time([*parts, parts[0]], OPTIONS)
    bare = draw(tmp_path, step_traces.A, Scene(n=900, contexts=False), "bare").trace
    with pytest.raises(DatasetError, match=r"bare\.parquet: no context sums, but .*t0\.parquet has"):
        fit_step_time([parts[0], bare], OPTIONS)


def test_too_little_is_refused_with_what_is_needed(tmp_path: Path) -> None:
    short = draw(tmp_path, step_traces.A, Scene(n=200)).trace
    with pytest.raises(DatasetError, match=r"trace\.parquet: 199 steps .* at least 300 are needed"):
        fit_step_time([short], OPTIONS)
    brief = draw(tmp_path, step_traces.A, Scene(n=400)).trace
    with pytest.raises(DatasetError, match=r"span 1 blocks of 1000 s; at least 4 are needed: .*--block-s"):
        fit_step_time([brief], FitOptions(block_s=1000.0))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"holdout": 0.0}, "holdout is 0"),
        ({"holdout": 1.0}, "holdout is 1"),
        ({"holdout": float("nan")}, "holdout is nan"),
        ({"block_s": 0.0}, "block_s is 0"),
        ({"block_s": 1e-300}, "block_s is 1e-300"),
        ({"block_s": float("inf")}, "block_s is inf"),
        ({"block_s": float("nan")}, "block_s is nan"),
        ({"seed": -1}, "seed is -1"),
    ],
)
def test_options_out_of_range_are_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        FitOptions(**options)


def test_the_fit_id_names_everything_the_fit_depends_on(trace: StepTrace, report: StepTimeReport) -> None:
    ids = {model.fit_id for model in report.models}
    ids |= {model.fit_id for model in fit_step_time([trace], FitOptions(block_s=2.0, seed=4)).models}
    assert len(ids) == 6
    again = fit_step_time([read_step_trace(trace.path)], OPTIONS)
    assert {model.fit_id for model in again.models} < ids
