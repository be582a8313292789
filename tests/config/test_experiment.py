from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from rbx.config.claims import load_claims
from rbx.config.experiment import SquareArrivals, load_experiment
from rbx.errors import ConfigError

ROOT = Path(__file__).resolve().parents[2]
CLAIMS = sorted(
    path for path in (ROOT / "experiments").rglob("*.yaml") if path.name in ("claims.yaml", "published.yaml")
)
EXPERIMENTS = sorted(
    path
    for path in (ROOT / "experiments").rglob("*.yaml")
    if path.parent.name not in ("pools", "datasets", "launch") and path not in CLAIMS
)


def document(**workload: Any) -> dict[str, Any]:
    return {
        "name": "trial",
        "grid": "datasets/g",
        "bundle": "results/bundles/b",
        "pool": "pool.yaml",
        "workload": {"rates_per_s": [6, 12], **workload},
        "policies": [{"kind": "random"}],
    }


def written(tmp_path: Path, data: dict[str, Any]) -> Path:
    path = tmp_path / "experiment.yaml"
    path.write_text(yaml.safe_dump(data), encoding="utf-8")
    return path


def test_a_minimal_experiment_gets_documented_defaults(tmp_path: Path) -> None:
    loaded = load_experiment(written(tmp_path, document()), ["workload.seeds=[0,1]"])
    assert loaded.value.workload.seeds == (0, 1)
    assert loaded.value.scheduler.batching.mode == "adaptive"
    assert loaded.sources["workload.rates_per_s.0"] == "file"
    assert loaded.sources["workload.seeds.1"] == "--set"
    assert loaded.sources["scheduler.order"] == "default"


@pytest.mark.parametrize(
    ("workload", "message"),
    [
        ({"rates_per_s": []}, "rates_per_s, loads or both"),
        ({"slo": {"ttft_s": 1.0, "ttft_target": {}}}, "either ttft_s or ttft_target"),
        ({"slo": {"ttft_target": {"low_s": 2.0}}}, "high_s lies below"),
        ({"slo": {"ttft_target": {"jitter": 1.0}}}, "jitter"),
        ({"slo": {"cost_weight_per_usd": 1e308}}, "cost_weight_per_usd"),
        ({"sources": ["a", "a"]}, "given twice"),
        ({"seeds": 3}, "workload.seeds: Input should be a list, in brackets"),
        ({"rates_per_s": [0]}, "rates_per_s.0"),
        ({"rates_per_s": [float("nan")]}, "rates_per_s.0"),
        ({"rates_per_s": [6, 6]}, "given twice"),
        ({"seeds": []}, "seeds is empty"),
        ({"seeds": [-1]}, "seeds.0"),
        ({"seeds": [0, 0]}, "given twice"),
        ({"arrivals": {"kind": "gamma"}}, "burstiness"),
        ({"arrivals": {"kind": "gamma", "burstiness": 0}}, "burstiness"),
        ({"arrivals": {"kind": "square", "low_over_mean": 1.0}}, "low_over_mean"),
        ({"arrivals": {"kind": "weekly"}}, "weekly"),
        ({"arrivals": {"kind": "trace", "path": "t.csv", "format": "excel"}}, "format"),
        ({"budget": {"share": 0.5, "low_usd": 2, "high_usd": 1}}, "high_usd lies below"),
        ({"budget": {"share": 1.5, "low_usd": 1, "high_usd": 2}}, "share"),
        ({"slo": {"ttft_s": 0}}, "ttft_s"),
        ({"n_requests": 0}, "n_requests"),
        ({"n_requests": 5, "duration_s": 60}, "either n_requests or duration_s"),
        ({"duration_s": float("inf")}, "duration_s"),
        ({"rate": 3}, "workload.rate:"),
    ],
)
def test_workloads_that_can_not_be_run_are_refused(
    tmp_path: Path, workload: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        load_experiment(written(tmp_path, document(**workload)))
    assert message in str(caught.value)


@pytest.mark.parametrize("name", ["", "a/b", "../up", "a b"])
def test_names_that_are_no_folder_names_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="name"):
        load_experiment(written(tmp_path, {**document(), "name": name}))


def test_an_experiment_without_policies_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="policies"):
        load_experiment(written(tmp_path, {**document(), "policies": []}))


def test_square_wave_defaults_to_half_minutes() -> None:
    assert SquareArrivals(kind="square", low_over_mean=0.5).phase_s == 30.0


@pytest.mark.parametrize("path", CLAIMS, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_claims_in_the_tree_are_valid(path: Path) -> None:
    assert len(load_claims(path).value.claims) >= 30


@pytest.mark.parametrize("path", EXPERIMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_experiments_in_the_tree_are_valid(path: Path) -> None:
    loaded = load_experiment(path)
    assert (ROOT / loaded.value.pool).is_file(), loaded.value.pool


def test_the_hard_rule_of_bear_is_refused_without_a_target(tmp_path: Path) -> None:
    hard = {**document(), "policies": [{"kind": "passthrough"}, {"kind": "bear"}]}
    with pytest.raises(ConfigError, match=r"policies\.1: .*ttft_target"):
        load_experiment(written(tmp_path, hard))
    load_experiment(written(tmp_path, {**hard, "policies": [{"kind": "bear", "rule": "soft"}]}))
    for target in ("workload.slo.ttft_s=1.0", "workload.slo.ttft_target={}"):
        load_experiment(written(tmp_path, hard), [target])
