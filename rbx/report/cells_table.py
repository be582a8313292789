"""``cells.parquet``: one row a finished cell, every metric a column."""

from __future__ import annotations

import json
from dataclasses import asdict, is_dataclass
from typing import Any

import pyarrow as pa

from rbx.report.keeping_up import keeps_up
from rbx.report.load import Cell, Sweep
from rbx.report.metrics import measure
from rbx.report.ontime.metrics import measure_on_time
from rbx.report.ontime.rule import OnTimeRule
from rbx.report.point import family_of


def cells_table(sweep: Sweep) -> pa.Table:
    """Rows in the order of the manifest; nested figures are joined by an underscore, mixes are JSON.

    ``sustained`` is null where it can't be told whether the cell keeps up with its arrivals. Columns of
    what came in time, ``on_time_…``, are there where the workload has TTFT targets.
    """
    table = pa.Table.from_pylist([_row(cell) | _on_time(cell, sweep.on_time) for cell in sweep.cells])
    column = table.schema.get_field_index("sustained")
    return table.set_column(column, "sustained", table["sustained"].cast(pa.bool_()))


def _row(cell: Cell) -> dict[str, Any]:
    spec = cell.spec
    row: dict[str, Any] = {
        "cell_id": spec.cell_id,
        "label": spec.label,
        "family": family_of(spec.policy),
        "policy": json.dumps(spec.policy, sort_keys=True),
        "rate_per_s": float(spec.rate_per_s),
        "load": None if spec.load is None else float(spec.load),
        "seed": spec.seed,
        "workload_hash": spec.workload_hash,
        "sustained": keeps_up(cell.requests),
    }
    metrics = measure([cell])
    for name in metrics.__dataclass_fields__:
        value = getattr(metrics, name)
        if is_dataclass(value):
            stem, _, unit = name.rpartition("_s")
            for part, figure in asdict(value).items():  # type: ignore[arg-type, unused-ignore]
                row[f"{stem}_{part}_s" if stem and not unit and part != "n" else f"{name}_{part}"] = figure
        else:
            row[name] = json.dumps(value, sort_keys=True) if isinstance(value, dict) else value
    return row


def _on_time(cell: Cell, rule: OnTimeRule | None) -> dict[str, Any]:
    if rule is None:
        return {}
    found = asdict(measure_on_time([cell], rule))
    return {
        name if name.startswith("on_time") else f"on_time_{name}": json.dumps(value, sort_keys=True)
        if isinstance(value, dict)
        else value
        for name, value in found.items()
    }
