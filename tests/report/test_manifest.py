"""A manifest of another shape than rbx writes is refused with file and key, never half read."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rbx.cli.main import run
from rbx.errors import StoreError
from rbx.report.load import read_sweep
from tests.report.sweeps import POLICIES, SweepShape, write_sweep

_SHAPE = SweepShape(policies=POLICIES[4:6], rates_per_s=(6.0,), n_prompts=10, n_requests=10)
Change = Callable[[dict[str, Any]], Any]


def _spoiled(folder: Path, change: Change) -> Path:
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    change(manifest)
    path.write_text(json.dumps(manifest))
    return folder


def _cell(**values: Any) -> Change:
    return lambda manifest: manifest["cells"][1].update(values)


def _top(**values: Any) -> Change:
    return lambda manifest: manifest.update(values)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        *(
            (lambda manifest, key=key: manifest.pop(key), f"{key}: Field required")
            for key in ("pool", "cells", "sources", "config", "grid", "simulated", "name")
        ),
        *(
            (lambda manifest, key=key: manifest["cells"][1].pop(key), f"cells.1.{key}: Field required")
            for key in ("cell_id", "label", "policy", "rate_per_s", "load", "seed", "n_requests")
        ),
        (_top(pool=[]), "pool: Input should be"),
        (
            _top(pool={"name": "p", "digest": "d", "tiers": "all", "instances": []}),
            "pool.tiers: Input should",
        ),
        (lambda m: m["pool"]["tiers"][0].pop("name"), "pool.tiers.0.name: Field required"),
        (lambda m: m["pool"]["tiers"].append(m["pool"]["tiers"][0]), "pool.tiers: '3b-a30' stands 2 times"),
        (_top(sources=["file"]), "sources: Input should be"),
        (_top(sources={"name": 3}), "sources.name: Input should be a valid string"),
        (_top(cells={}), "cells: Input should be"),
        (_top(cells=[]), "cells: List should have at least 1 item"),
        (_top(cells=["a"]), "cells.0: Input should be"),
        (_top(capacity="large"), "capacity: Input should be"),
        (_top(config={"workload": {"slo": "fast"}}), "config.workload.slo: Input should be"),
        (_top(synthetic_grid="no"), "synthetic_grid: Input should be a valid boolean"),
        (_top(labels_sha256="12"), "labels_sha256: String should match"),
        (_top(host={"load": float("nan")}), "host.load: nan is no number"),
        (_cell(policy="routebalance"), "cells.1.policy: Input should be"),
        (_cell(policy={"weights": [1, 0, 0]}), "cells.1.policy.kind: Field required"),
        (_cell(policy={"kind": "routebalance", "weights": [1, 0]}), "cells.1.policy.weights: List should"),
        (_cell(rate_per_s="6"), "cells.1.rate_per_s: Input should be a valid number"),
        (_cell(rate_per_s=0), "cells.1.rate_per_s: Input should be greater than 0"),
        (_cell(rate_per_s=float("inf")), "cells.1.rate_per_s: Input should be a finite number"),
        (_cell(load="0.3"), "cells.1.load: Input should be a valid number"),
        (_cell(seed=-1), "cells.1.seed: Input should be greater than or equal to 0"),
        (_cell(cell_id="../../elsewhere"), "cells.1.cell_id: String should match"),
        (lambda m: m["cells"].append(m["cells"][0]), "stands 2 times"),
    ],
)
def test_a_wrong_manifest_names_file_and_key(tmp_path: Path, change: Change, words: str) -> None:
    folder = _spoiled(write_sweep(tmp_path / "s", _SHAPE), change)
    with pytest.raises(StoreError, match=r"manifest\.json: not the manifest of a sweep") as refused:
        read_sweep(folder)
    assert words in str(refused.value)


def test_every_fault_is_told_at_once_and_the_command_exits_with_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def change(manifest: dict[str, Any]) -> None:
        manifest["pool"] = None
        for cell in manifest["cells"]:
            cell["rate_per_s"] = cell["load"] = cell["seed"] = cell["label"] = cell["policy"] = []

    folder = _spoiled(write_sweep(tmp_path / "s", _SHAPE), change)
    assert run(["report", str(folder)]) == 1
    shown = capsys.readouterr().err
    assert "11 fault(s)" in shown
    assert "and 1 more" in shown


def test_keys_of_a_later_version_are_left_alone(tmp_path: Path) -> None:
    def change(manifest: dict[str, Any]) -> None:
        manifest["tomorrow"] = {"a": 1}
        manifest["cells"][0]["tomorrow"] = [1]

    sweep = read_sweep(_spoiled(write_sweep(tmp_path / "s", _SHAPE), change))
    assert len(sweep.cells) == 2
    assert sweep.manifest["tomorrow"] == {"a": 1}
