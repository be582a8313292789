"""What makes a cell another one: everything that can change its records, and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from rbx.config.experiment import load_experiment
from rbx.sweep.plan import Plan, make_plan
from tests.workplace import EXPERIMENT, Workplace


@pytest.fixture
def planned(workplace: Workplace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Plans the workplace's experiment, some of it changed."""
    monkeypatch.chdir(workplace.folder)

    def plan(*changes: str) -> Plan:
        (tmp_path / "tiny.yaml").write_text(yaml.safe_dump(EXPERIMENT))
        return make_plan(load_experiment(tmp_path / "tiny.yaml", list(changes)))

    return plan


def ids(plan: Plan) -> list[str]:
    return [cell.cell_id for cell in plan.cells]


def test_what_the_report_alone_reads_is_no_part_of_a_cell(planned: Any) -> None:
    dearer = planned("workload.slo.cost_weight_per_usd=2000.0")
    assert ids(dearer) == ids(planned())
    assert dearer.manifest["config"]["workload"]["slo"]["cost_weight_per_usd"] == 2000.0


@pytest.mark.parametrize(
    "change",
    [
        "workload.slo.e2e_s=11.0",
        "workload.slo.tpot_s=0.1",
        "workload.max_output_tokens=100",
        "scheduler.order=fifo",
        "scheduler.network_s=0.002",
        "scheduler.decision_cost.encode_s_per_token=1.0e-6",
        "workload.budget={share: 0.5, low_usd: 1.0e-6, high_usd: 1.0e-5}",
        "workload.arrivals={kind: constant}",
        "prices={3b-a30: {in_usd_per_mtok: 1.0, out_usd_per_mtok: 1.0}}",
        "tier_loss={tier: 3b-a30}",
    ],
)
def test_what_changes_records_makes_every_cell_another(planned: Any, change: str) -> None:
    assert not set(ids(planned(change))) & set(ids(planned()))


def test_what_it_costs_to_ask_a_router_is_part_of_the_cells_of_that_router_alone(planned: Any) -> None:
    policies = (
        "policies=[{kind: knn, deployment: [in-batch, serial]}, {kind: omni-router}, {kind: passthrough}]"
    )
    plain = planned(policies)
    costly = planned(policies, "scheduler.scoring_cost={knn: {fixed_s: 0.1}, best-route: {fixed_s: 0.2}}")
    others = planned(policies, "scheduler.scoring_cost={knn: {fixed_s: 0.1}}")
    assert ids(costly) == ids(others)
    moved = {a.label for a, b in zip(plain.cells, costly.cells, strict=True) if a.cell_id != b.cell_id}
    assert moved == {"knn/shortest-queue", "knn/shortest-queue serial"}
