"""A live cell's policy, run by the simulator on the same workload: its own decisions, not the live ones."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
from pydantic import TypeAdapter

from rbx.config.policy import ExternalPolicy, SinglePolicy
from rbx.errors import StoreError
from rbx.sweep.cell import cell_summary
from rbx.sweep.compare.servers import Tiers
from rbx.sweep.context import SweepContext
from rbx.sweep.prompts import PromptTable
from rbx.sweep.scoring import simulated_records
from rbx.sweep.simulate import SimulatedCell
from rbx.sweep.store import CellSpec, CellSummary
from rbx.sweep.workload import Arriving, draw_workload

_POLICY: TypeAdapter[Any] = TypeAdapter(SinglePolicy)


def is_ours(spec: CellSpec) -> bool:
    """Whether the simulator has the cell's policy: what decides behind other endpoints it knows not."""
    return not isinstance(_POLICY.validate_python(spec.policy), ExternalPolicy)


def drawn_again(context: SweepContext, spec: CellSpec) -> Arriving:
    """The cell's workload; raises ``StoreError`` where it is no longer the one that was sent."""
    workload, tokens = context.experiment.workload, context.prompts.input_tokens
    arriving = draw_workload(workload, tokens, spec.rate_per_s, spec.seed)
    if arriving.hash != spec.workload_hash:
        raise StoreError(
            f"cell {spec.cell_id}: the experiment's workload draws other requests than the cell was sent; "
            "sweep again with this version"
        )
    return arriving


def rerun(
    context: SweepContext, spec: CellSpec, servers: Tiers, prompts: PromptTable
) -> tuple[CellSummary, pa.Table]:
    """Summary and ``RECORDS`` of the cell, simulated on ``servers`` with the true lengths of ``prompts``.

    Policies believe what they believed live: the pool, the predictions and the decision costs of
    ``context``. Times are those of ``servers``.
    """
    arriving = drawn_again(context, spec)
    policy = _POLICY.validate_python(spec.policy)
    truth = replace(context, prompts=replace(context.prompts, output_tokens=prompts.output_tokens))
    outcome = SimulatedCell(truth, policy, arriving, spec.seed, servers).run()
    records = simulated_records(spec.cell_id, truth, arriving, outcome)
    ok = int((outcome.instance >= 0).sum())
    summary = CellSummary(**cell_summary(truth, spec, outcome, ok=ok), records_sha256="")
    return summary, records
