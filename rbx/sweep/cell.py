"""Run one cell and keep it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import TypeAdapter

from rbx.config.policy import SinglePolicy
from rbx.errors import StoreError
from rbx.sweep.context import SweepContext
from rbx.sweep.scoring import simulated_records
from rbx.sweep.simulate import Outcome, SimulatedCell
from rbx.sweep.store import CellSpec, SweepStore
from rbx.sweep.workload import draw_workload

_POLICY: TypeAdapter[Any] = TypeAdapter(SinglePolicy)


def run_cell(context: SweepContext, cell: CellSpec, store: SweepStore) -> None:
    """Simulate, score and write one cell; raises ``StoreError`` if its counts do not add up."""
    store.write_cell(*simulated_cell(context, cell))


def simulated_cell(context: SweepContext, cell: CellSpec) -> tuple[pa.Table, dict[str, Any]]:
    """Records and summary of one cell; raises ``StoreError`` if it is not the planned one."""
    workload, tokens = context.experiment.workload, context.prompts.input_tokens
    arriving = draw_workload(workload, tokens, cell.rate_per_s, cell.seed)
    if arriving.hash != cell.workload_hash:
        raise StoreError(f"cell {cell.cell_id}: the workload differs from the planned one")
    outcome = SimulatedCell(context, _POLICY.validate_python(cell.policy), arriving, cell.seed).run()
    records = simulated_records(cell.cell_id, context, arriving, outcome)
    ok = pc.sum(pc.equal(records["status"], "ok")).as_py()
    return records, cell_summary(context, cell, outcome, ok=ok)


def cell_summary(context: SweepContext, cell: CellSpec, outcome: Outcome, *, ok: int) -> dict[str, Any]:
    """Counts and engine figures of a simulated cell, ``CellSummary`` but for the digest of its records."""
    names = [instance.name for instance in context.pool.instances]
    return {
        "cell_id": cell.cell_id,
        "scheduled": cell.n_requests,
        "sent": cell.n_requests,
        "not_sent": 0,
        "ok": ok,
        "error": cell.n_requests - ok,
        "timeout": 0,
        "cancelled": 0,
        "busy_s": dict(zip(names, outcome.busy_s.tolist(), strict=True)),
        "steps": outcome.steps,
        "preemptions": int(outcome.preemptions.sum()),
        "batches": outcome.batches,
        "infeasible": outcome.infeasible,
        "alarms": outcome.alarms,
        "duration_s": float(np.nanmax(outcome.done_s)) if ok else 0.0,
    }
