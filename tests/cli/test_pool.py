from __future__ import annotations

import json
from pathlib import Path

import pytest

from rbx.cli.main import run
from rbx.cli.pool import decode_step_s
from rbx.config.pool import load_pool

ROOT = Path(__file__).resolve().parents[2]
PAPER = str(ROOT / "experiments" / "pools" / "paper.yaml")


def test_json_holds_what_the_file_says_and_what_follows(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["pool", "show", PAPER, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    pool = load_pool(Path(PAPER)).value
    assert (document["instances"], document["gpus"]) == (13, 28)
    assert document["digest"] == pool.digest
    assert document["models"] == list(pool.models)
    alone_ms = {tier["model"]: round(1000 * tier["single_stream_tpot_s"], 1) for tier in document["tiers"]}
    assert alone_ms == {"Qwen2.5-72B": 41.6, "Qwen2.5-14B": 13.9, "Qwen2.5-7B": 19.6, "Qwen2.5-3B": 10.2}
    for shown, tier in zip(document["tiers"], pool.tiers, strict=True):
        assert shown["kv_tokens"] == tier.limits.kv_blocks * 16
        assert shown["decode_step_s"]["1"] == shown["single_stream_tpot_s"] < shown["decode_step_s"]["32"]


def test_table_names_every_tier_and_its_gpus(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["pool", "show", PAPER]) == 0
    shown = capsys.readouterr().out
    for text in ("72b-a100x4", "4 x A100-SXM4-40GB", "34,640", "41.6", "13 instances, 28 GPUs"):
        assert text in shown


def test_overrides_reach_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["pool", "show", PAPER, "--json", "--set", "tiers.0.instances=5"]) == 0
    assert json.loads(capsys.readouterr().out)["instances"] == 16


def test_a_bad_pool_is_one_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["pool", "show", PAPER, "--set", "tiers.0.instances=-5"]) == 1
    assert "tiers.0.instances" in capsys.readouterr().err


def test_decode_step_is_the_closed_form() -> None:
    step = load_pool(Path(PAPER)).value.tiers[0].step_time
    expected = 0.04142 + 1.417e-4 * 32 + 7.199e-8 * 32 * 500
    assert decode_step_s(step, 32, 500) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("step_time", "expected_s"),
    [
        (
            "{feature_set: B, b0_s: 0.01, prefill_s_per_token: 1e-4, decode_s_per_seq: 2e-4, "
            "context_s_per_token: 1e-7, chunk_s_per_squared_token: 1e-8, cross_s_per_token_pair: 2e-8, "
            "source: x}",
            0.01 + 32 * 2e-4 + 32 * 500 * 1e-7,
        ),
        (
            "{feature_set: C, b0_s: 0.01, prefill_s_per_token: 1e-4, decode_s_per_seq: 2e-4, source: x}",
            0.01 + 32 * 2e-4,
        ),
    ],
    ids=["B", "C"],
)
def test_every_feature_set_is_shown(
    capsys: pytest.CaptureFixture[str], step_time: str, expected_s: float
) -> None:
    assert run(["pool", "show", PAPER, "--json", "--set", f"tiers.0.step_time={step_time}"]) == 0
    shown = json.loads(capsys.readouterr().out)["tiers"][0]
    assert shown["step_time_feature_set"] == step_time[len("{feature_set: ")]
    assert shown["decode_step_s"]["32"] == pytest.approx(expected_s, rel=1e-12)
