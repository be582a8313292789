"""Which live experiments are refused, and what of them makes a cell another one."""

from __future__ import annotations

import math
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from rbx.config.base import parse
from rbx.config.experiment import Experiment
from rbx.config.live import Live
from rbx.errors import ConfigError
from rbx.sweep.live.identifying import live_identity

GATEWAY = {"kind": "gateway", "url": "http://127.0.0.1:8200"}
OPENAI = {"kind": "openai", "url": "http://127.0.0.1:8000/v1", "model": "m"}


def document(**changes: Any) -> dict[str, Any]:
    return {
        "name": "trial",
        "grid": "datasets/g",
        "bundle": "results/bundles/b",
        "pool": "pool.yaml",
        "engine": "live",
        "live": {"target": GATEWAY},
        "workload": {"rates_per_s": [6]},
        "policies": [{"kind": "random"}],
        **changes,
    }


def test_a_live_experiment_needs_little() -> None:
    experiment = parse(Experiment, document(), where="test")
    assert experiment.live is not None
    assert experiment.live.prefix_cache == "salt"
    assert experiment.live.keep_text is True


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"engine": "sim"}, "live belongs to engine: live"),
        ({"live": None}, "needs live.target"),
        ({"engine": "sim", "live": None, "policies": [{"kind": "external"}]}, "policies.0: external belongs"),
        ({"workload": {"loads": [0.5]}}, "give rates_per_s"),
        ({"scheduler": {"telemetry": {"period_s": 1.0}}}, "scheduler.telemetry is for simulated pools"),
        (
            {
                "workload": {"rates_per_s": [6], "slo": {"ttft_s": 1.0}},
                "policies": [{"kind": "bear", "true_lengths": [True]}],
            },
            "nobody knows true_lengths",
        ),
        (
            {"workload": {"rates_per_s": [6], "split": "all"}, "policies": [{"kind": "latency-agnostic"}]},
            "from their own labels",
        ),
        ({"live": {"target": OPENAI}}, "policies must be external"),
        (
            {
                "live": {"target": OPENAI},
                "policies": [{"kind": "external"}],
                "workload": {"rates_per_s": [6], "budget": {"share": 0.5, "low_usd": 1e-5, "high_usd": 1e-4}},
            },
            "nothing behind an openai target keeps to budgets",
        ),
        ({"live": {"target": {"kind": "ray"}}}, "live.target"),
        ({"live": {"target": {"kind": "gateway", "url": "http://user@host"}}}, "live.target"),
        ({"live": {"target": GATEWAY, "most_rate_error": 0}}, "live.most_rate_error"),
        ({"live": {"target": GATEWAY, "client": {"processes": 0}}}, "live.client.processes"),
        ({"live": {"target": GATEWAY, "body": {"stream": False}}}, "stream is set by rbx"),
        ({"live": {"target": GATEWAY, "body": {"a": [math.nan]}}}, "live.body: no JSON can say it"),
        ({"live": {"target": GATEWAY, "body": {"a": date(2020, 1, 1)}}}, "live.body: no JSON can say it"),
        ({"live": {"target": GATEWAY, "warm_up_requests": 2_000_000_000}}, "live.warm_up_requests"),
        ({"live": {"target": {"kind": "gateway", "url": "http://host:99999"}}}, "its port is none"),
        ({"live": {"target": {"kind": "gateway", "url": "http://host:0"}}}, "port 0 is none"),
        ({"live": {"target": {"kind": "gateway", "url": "http://[::1"}}}, "Invalid IPv6 URL"),
    ],
)
def test_what_can_not_be_run_live_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(Experiment, document(**changes), where="test")
    assert message in str(caught.value)


def identity(**changes: Any) -> dict[str, Any]:
    return live_identity(Live.model_validate({"target": GATEWAY, **changes}))


@pytest.mark.parametrize(
    "change",
    [{"keep_text": False}, {"order": "file"}, {"most_schedule_delay_p99_s": 1.0}, {"most_rate_error": 1.0}],
)
def test_what_changes_no_record_leaves_a_cell_what_it_is(change: dict[str, Any]) -> None:
    assert identity(**change) == identity()


@pytest.mark.parametrize(
    "change",
    [
        {"body": {"temperature": 1}},
        {"prefix_cache": "keep"},
        {"warm_up_requests": 0},
        {"api": "completions"},
        {"client": {"total_s": 3.0}},
        {"target": {**GATEWAY, "url": "http://127.0.0.1:9"}},
    ],
)
def test_what_may_change_a_record_makes_another_cell(change: dict[str, Any]) -> None:
    assert identity(**change) != identity()


def test_a_launch_files_content_is_part_of_it(tmp_path: Path) -> None:
    file = tmp_path / "launch.yaml"
    target = {"kind": "launch", "file": str(file)}
    file.write_text("pool: a.yaml\n")
    before = identity(target=target)
    file.write_text("pool: a.yaml\nlauncher: {kind: mock, time_scale: 2.0}\n")
    assert identity(target=target) != before
    file.unlink()
    with pytest.raises(ConfigError, match=r"launch\.yaml: can't be read"):
        identity(target=target)
