"""From a bundle without a calibration to a filtered sweep and its report, as a user gets there."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from tests.workplace import ROOT, Workplace

POOL = str(ROOT / "experiments/pools/paper.yaml")
RULES = '[null, budget, cdf, {kind: qlm, ttft: bea}, {kind: "slos-serve", on_empty: shed}]'


def planned(workplace: Workplace, out: str) -> dict[str, dict[str, Any]]:
    manifest = json.loads((workplace.folder / out / "manifest.json").read_text())
    return {cell["label"]: cell for cell in manifest["cells"]}


def sweep(workplace: Workplace, bundle: str, out: str, rules: str, code: int = 0) -> Any:
    policies = f"[{{kind: passthrough, dispatch: [shortest-queue], filter: {rules}}}]"
    changes = (
        f"policies={policies}",
        f"bundle={bundle}",
        "workload.rates_per_s=[20.0]",
        "workload.seeds=[0]",
        "workload.slo={ttft_s: 0.6, tpot_s: 0.03}",
        "workload.budget={share: 0.5, low_usd: 1.0e-6, high_usd: 5.0e-5}",
    )
    sets = [word for change in changes for word in ("--set", change)]
    return workplace.rbx("sweep", "tiny.yaml", "--jobs", "1", "--out", out, *sets, code=code)


def test_a_calibration_is_asked_for_made_and_part_of_what_it_decides(workplace: Workplace) -> None:
    bundle = "results/bundles/calibrated"
    shutil.copytree(workplace.folder / "results/bundles/tiny", workplace.folder / bundle)
    refused = sweep(workplace, bundle, "results/f0", RULES, code=1)
    assert "--calibrate" in refused.stderr
    assert not (workplace.folder / "results/f0").exists()

    sweep(workplace, bundle, "results/f1", "[null, budget]")
    train = ("train", "datasets/tiny", "--pool", POOL, "--out", bundle, "--calibrate", "--json")
    told = json.loads(workplace.rbx(*train).stdout)
    assert {row["source"] for row in told["residuals"]} >= {"bea", "prefill-throughput", "xgboost", "prior"}
    assert all(row["n"] >= 50 for row in told["residuals"])
    sweep(workplace, bundle, "results/f1", RULES)
    other = json.loads(workplace.rbx(*train, "--seed", "1").stdout)
    assert other["digest"] != told["digest"]
    sweep(workplace, bundle, "results/f2", RULES)

    first, second = planned(workplace, "results/f1"), planned(workplace, "results/f2")
    differing = {label for label in first if first[label]["cell_id"] != second[label]["cell_id"]}
    assert differing == {"passthrough/shortest-queue | cdf", "passthrough/shortest-queue | qlm bea"}

    cells = workplace.folder / "results/f1/cells"
    for label, cell in first.items():
        records = pq.read_table(cells / f"{cell['cell_id']}.parquet")
        assert ("admission" in records.schema.names) == ("|" in label)
    workplace.rbx("report", "results/f1")
    page = next(Path(workplace.folder / "results/f1/report").glob("*.html")).read_text()
    assert 'aria-label="Filters"' in page
    assert "passthrough/shortest-queue | cdf" in page
