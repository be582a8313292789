"""Rows that would count as something they are not: each sets its cell aside, with the reason."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from rbx.cli.main import run
from rbx.errors import StoreError
from rbx.report.load import read_sweep
from rbx.report.metrics import measure
from tests.report.sweeps import MODELS, POLICIES, TIERS, SweepShape, Tamper, write_sweep

N = 25


def _shape(**changes: Any) -> SweepShape:
    return SweepShape(policies=POLICIES[4:7], rates_per_s=(6.0,), n_prompts=20, n_requests=N, **changes)


def _null(name: str, row: int = 3) -> Tamper:
    def tamper(columns: dict[str, Any], summary: dict[str, Any]) -> None:
        values = pa.array(columns[name], from_pandas=True).to_pylist()
        values[row] = None
        columns[name] = pa.array(values)

    return tamper


def _put(name: str, value: Any, row: int = 3) -> Tamper:
    def tamper(columns: dict[str, Any], summary: dict[str, Any]) -> None:
        values = list(columns[name])
        values[row] = value
        columns[name] = values

    return tamper


def _summary(change: Callable[[dict[str, Any]], Any]) -> Tamper:
    return lambda columns, summary: change(summary)


def _swap_model(columns: dict[str, Any], summary: dict[str, Any]) -> None:
    other = MODELS[(MODELS.index(str(columns["model"][3])) + 1) % len(MODELS)]
    _put("model", other)(columns, summary)


@pytest.mark.parametrize(
    ("tamper", "words"),
    [
        (_null("cost_usd"), "1 ok requests have no cost_usd, the first is request 3"),
        (_null("slo_met"), "1 ok requests have no slo_met, the first is request 3"),
        (_null("model"), "1 ok requests have no model, the first is request 3"),
        (_null("tier"), "1 ok requests have no tier, the first is request 3"),
        (_null("output_tokens"), "1 ok requests have no output_tokens, the first is request 3"),
        (_null("exhausted"), "1 ok requests have no exhausted, the first is request 3"),
        (_null("decision_mode"), "1 ok requests have no decision_mode, the first is request 3"),
        (_null("quality_status"), "1 ok requests have no quality_status, the first is request 3"),
        (_null("quality"), "1 ok requests have a quality_status at odds with quality, as request 3"),
        (_put("quality_status", "missing"), "a quality_status at odds with quality, as request 3"),
        (_null("sent_s"), "1 ok requests have no sent_s, the first is request 3"),
        (_null("cell_id"), "column cell_id holds 1 nulls"),
        (_null("request"), "column request holds 1 nulls"),
        (_put("model", "gpt-0"), "1 requests have an unknown model, the first is request 3: 'gpt-0'"),
        (_put("tier", "9b-cpu"), "1 requests have an unknown tier, the first is request 3: '9b-cpu'"),
        (_put("instance", "x/9"), "1 requests have an unknown instance, the first is request 3: 'x/9'"),
        (_put("prompt_id", "q1"), "1 requests have an unknown prompt_id, the first is request 3: 'q1'"),
        (_put("cell_id", "other"), "1 requests have an unknown cell_id, the first is request 3: 'other'"),
        (_put("decision_mode", "guess"), "unknown decision_mode, the first is request 3: 'guess'"),
        (_swap_model, "1 requests have a model that their tier does not serve, the first is request 3"),
        (_put("output_tokens", -5), "column output_tokens holds a negative value: -5"),
        (_put("input_tokens", -1), "column input_tokens holds a negative value: -1"),
        (_put("encode_s", -0.5), "column encode_s holds a negative value: -0.5"),
        (_put("request", -1), "1 requests lie outside the 25 planned, as request -1"),
        (_put("request", N), "1 requests lie outside the 25 planned, as request 25"),
        (_summary(lambda s: s["busy_s"].pop(f"{TIERS[0]}/0")), "busy_s lacks the instances 3b-a30/0"),
        (_summary(lambda s: s["busy_s"].update({"x/0": 1.0})), "the pool lacks: 'x/0'"),
        (_summary(lambda s: s.update(duration_s=-1.0)), "duration_s: Input should be greater than"),
    ],
)
def test_a_row_that_would_be_counted_wrong_sets_its_cell_aside(
    tmp_path: Path, tamper: Tamper, words: str
) -> None:
    folder = write_sweep(tmp_path / "s", _shape(tamper={1: tamper}))
    sweep = read_sweep(folder)
    assert [cell.spec.label for cell in sweep.cells] == [POLICIES[4].label, POLICIES[6].label]
    (bad,) = sweep.invalid
    assert bad.spec.label == POLICIES[5].label
    assert any(words in reason for reason in bad.reasons), bad.reasons
    with pytest.raises(StoreError, match=r"1 cell\(s\) can't be reported \(--strict\)") as refused:
        read_sweep(folder, strict=True)
    assert words in str(refused.value)


def test_exit_codes_of_a_sweep_with_a_costless_row(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_sweep(tmp_path / "s", _shape(tamper={1: _null("cost_usd")}))
    assert run(["report", str(folder), "--resamples", "100"]) == 3
    assert "1 ok requests have no cost_usd" in (folder / "report" / "index.html").read_text(encoding="utf-8")
    capsys.readouterr()
    assert run(["report", str(folder), "--resamples", "100", "--strict"]) == 1
    assert "no cost_usd" in capsys.readouterr().err.replace("\n", " ")


def test_a_request_that_failed_may_lack_what_only_an_answer_has(tmp_path: Path) -> None:
    def forget(columns: dict[str, Any], summary: dict[str, Any]) -> None:
        failed = columns["status"] == "error"
        assert 0 < failed.sum() < N
        for name in ("cost_usd", "slo_met", "model", "tier", "instance", "output_tokens"):
            values = [
                None if gone else value
                for value, gone in zip(np.asarray(columns[name]).tolist(), failed, strict=True)
            ]
            columns[name] = pa.array(values)

    whole = read_sweep(write_sweep(tmp_path / "a", _shape(failures=0.3)))
    bare = read_sweep(write_sweep(tmp_path / "b", _shape(failures=0.3, tamper={1: forget})))
    assert bare.invalid == ()
    before, after = measure(whole.cells[1:2]), measure(bare.cells[1:2])
    assert after.counts == before.counts
    assert after.cost_total_usd == before.cost_total_usd > 0
    assert after.slo_attainment == before.slo_attainment
    assert after.tier_share == before.tier_share


def test_without_a_target_nothing_can_be_met_or_missed(tmp_path: Path) -> None:
    assert read_sweep(write_sweep(tmp_path / "a", _shape(slo=False))).invalid == ()

    def judge(columns: dict[str, Any], summary: dict[str, Any]) -> None:
        columns["slo_met"] = np.ones(N, dtype=np.bool_)

    (bad,) = read_sweep(write_sweep(tmp_path / "b", _shape(slo=False, tamper={1: judge}))).invalid
    assert bad.reasons == ("column slo_met holds values, but the workload has no target",)
