from __future__ import annotations

from pathlib import Path

import pytest

from rbx.config.faults import Crash, FaultScript, Slow, load_faults
from rbx.config.pool import load_pool
from rbx.errors import ConfigError

POOL = Path(__file__).resolve().parents[2] / "experiments" / "pools" / "paper.yaml"


def test_a_fault_reaches_its_instance_its_tier_or_all(tmp_path: Path) -> None:
    file = tmp_path / "faults.yaml"
    file.write_text(
        "faults:\n"
        "  - {kind: crash, target: 72b-a100x4/1, after_chunks: 3}\n"
        "  - {kind: slow, target: 72b-a100x4, factor: 10.0}\n"
        "  - {kind: no_done}\n"
    )
    script = load_faults(file).value
    script.check(load_pool(POOL).value)
    first, second = script.of("72b-a100x4/1", "72b-a100x4")[:2]
    assert first == Crash(kind="crash", target="72b-a100x4/1", after_chunks=3)
    assert second == Slow(kind="slow", target="72b-a100x4", factor=10.0)
    assert [fault.kind for fault in script.of("72b-a100x4/0", "72b-a100x4")] == ["slow", "no_done"]
    assert [fault.kind for fault in script.of("3b-a30/0", "3b-a30")] == ["no_done"]


def test_targets_must_be_the_pools() -> None:
    script = FaultScript.model_validate({"faults": [{"kind": "refuse", "target": "72b"}]})
    with pytest.raises(ConfigError, match="named 72b; its tiers are 72b-a100x4, 14b"):
        script.check(load_pool(POOL).value)


@pytest.mark.parametrize(
    ("fault", "key"),
    [
        ("{kind: explode}", "faults.0"),
        ("{kind: slow}", "factor"),
        ("{kind: slow, factor: .nan}", "factor"),
        ("{kind: hang, after_chunks: 1.5}", "after_chunks"),
        ("{kind: status, code: 302}", "code"),
        ("{kind: telemetry, mode: odd}", "mode"),
        ("{kind: crash, share: 2}", "share"),
        ("{kind: crash, requests: 0}", "requests"),
        ("{kind: down, start_s: 5, end_s: 5}", "end_s = 5.0 must be after start_s = 5.0"),
    ],
)
def test_each_fault_of_the_file_is_told(tmp_path: Path, fault: str, key: str) -> None:
    file = tmp_path / "faults.yaml"
    file.write_text(f"faults: [{fault}]")
    with pytest.raises(ConfigError, match=key):
        load_faults(file)
