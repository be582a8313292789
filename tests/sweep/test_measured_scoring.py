"""Measured scoring costs: fits that find the constants again, real calls, files that experiments take."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import yaml

from rbx.cli.main import run
from rbx.config.base import parse
from rbx.config.experiment import SchedulerConfig, load_experiment
from rbx.config.scoring_cost import ScoringCost
from rbx.heads.bundle import Bundle
from rbx.heads.routers.train import train_routers
from rbx.heads.train import TrainOptions, train_bundle
from rbx.scheduler.scoring_times import ScoringTimes
from rbx.sweep.measured_scoring import ScoringSample, fitted
from tests.heads import pools

BUSY = ("--most-error", "100")  # a machine that runs tests has other work
CALLS = (
    (10,),
    (60,),
    (240,),
    (60,) * 4,
    (10, 10, 10, 240),
    (60,) * 16,
    (10,) * 15 + (240,),
    (10, 60, 240) * 8,
)


@pytest.mark.parametrize("padded", [True, False])
def test_a_fit_finds_the_constants_again_and_whether_calls_are_padded(padded: bool) -> None:
    true = ScoringCost(fixed_s=0.02, per_request_s=0.001, per_token_s=1e-4, max_tokens=128, padded=padded)
    times = ScoringTimes.of(true, 1)
    samples = [ScoringSample(call, times.call_s(np.array(call))) for call in CALLS]
    found, error = fitted(samples, 128, padded=padded)
    assert found == true
    assert error < 0.01
    _, other = fitted(samples, 128, padded=not padded)
    assert other > 0.1


def test_a_fit_is_never_negative() -> None:
    falling = [ScoringSample(call, 0.1 / len(call)) for call in CALLS]
    cost, _ = fitted(falling, 256, padded=False)
    assert min(cost.fixed_s, cost.per_request_s, cost.per_token_s) >= 0.0


@pytest.fixture(scope="module")
def bundle_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("measured")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        heads = train_bundle(pools.view(), pools.pool(), TrainOptions(compare=False)).bundle
        train_routers(heads, pools.view(), pools.pool(), ("linear",), seed=0)[0].save(folder / "bundle")
    pool = pools.pool().model_dump(mode="json")
    (folder / "pool.yaml").write_text(json.dumps(pool), encoding="utf-8")
    return folder


def test_the_command_prints_a_fragment_and_keeps_what_experiments_take(
    bundle_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "costs.yaml"
    given = ["--bundle", str(bundle_folder / "bundle"), "--pool", str(bundle_folder / "pool.yaml")]
    router = ["--router", "linear"]
    code = run(
        [
            "bench",
            "scoring-cost",
            *given,
            "--repeats",
            "3",
            "--workers",
            "2",
            "--out",
            str(out),
            *router,
            *BUSY,
        ]
    )
    printed = capsys.readouterr()
    assert code == 0, printed.err
    scheduler = yaml.safe_load(printed.out)["scheduler"]
    config = parse(SchedulerConfig, scheduler, where="printed")
    assert set(config.scoring_cost) == {"linear"}
    for cost in config.scoring_cost.values():
        alone_s, many_s = (ScoringTimes.of(cost, 1).call_s(np.array(call)) for call in ((60,), (60,) * 16))
        assert 0.0 < alone_s < many_s
    assert yaml.safe_load(out.read_text(encoding="utf-8")) == scheduler["scoring_cost"]
    overridden = tmp_path / "experiment.yaml"
    overridden.write_text(
        "{name: x, grid: g, bundle: b, pool: p, workload: {rates_per_s: [1.0]}, policies: [{kind: knn}]}",
        encoding="utf-8",
    )
    kept = out.read_text(encoding="utf-8")
    loaded = load_experiment(overridden, [f"scheduler.scoring_cost={kept}"]).value
    assert loaded.scheduler.scoring_cost == config.scoring_cost


def test_costs_that_do_not_fit_are_refused_and_kept_nowhere(
    bundle_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["--bundle", str(bundle_folder / "bundle"), "--pool", str(bundle_folder / "pool.yaml")]
    out = tmp_path / "costs.yaml"
    asked = ["--repeats", "3", "--workers", "2", "--router", "linear", "--most-error", "0"]
    assert run(["bench", "scoring-cost", *given, "--out", str(out), *asked]) == 1
    told = capsys.readouterr().err
    assert "the costs of linear do not fit what was timed" in told
    assert "--most-error" in told
    assert not out.exists()


def test_routers_that_ask_the_heads_alone_cost_what_knn_does(
    bundle_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["--bundle", str(bundle_folder / "bundle"), "--pool", str(bundle_folder / "pool.yaml")]
    assert run(["bench", "scoring-cost", *given, "--router", "port"]) == 2
    assert "time knn" in capsys.readouterr().err


def test_a_router_that_is_not_there_is_told(bundle_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["--bundle", str(bundle_folder / "bundle"), "--pool", str(bundle_folder / "pool.yaml")]
    assert run(["bench", "scoring-cost", *given, "--router", "mlp"]) == 1
    assert "the bundle has no router mlp" in capsys.readouterr().err
    assert Bundle.load(bundle_folder / "bundle").routers.keys() == {"linear"}
