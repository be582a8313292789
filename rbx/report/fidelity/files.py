"""``validate/`` of a live sweep: every request, every figure, and the tables as Markdown."""

from __future__ import annotations

import math
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from rbx.durable import write_json, write_table, write_text
from rbx.errors import StoreError
from rbx.report.fidelity.study import FITTED, Fidelity
from rbx.report.fidelity.tables import all_tables
from rbx.report.fidelity.timing import METRICS
from rbx.report.fidelity.words import headline, warnings
from rbx.report.written.table_markdown import markdown_table, markdown_text

FOLDER = "validate"


def write_fidelity(found: Fidelity) -> Path:
    """Write ``requests.parquet``, ``summary.json`` and ``validate.md``; returns the last one's path."""
    folder = found.sweep.folder / FOLDER
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise StoreError(f"{folder}: can't be written: {error.strerror}") from None
    write_table(requests_table(found), folder / "requests.parquet")
    write_json(summary(found), folder / "summary.json")
    page = folder / "validate.md"
    write_text(markdown(found), page)
    return page


def requests_table(found: Fidelity) -> pa.Table:
    """One row for each request of a valid cell and each set of step times; seconds, null where unknown."""
    parts = []
    for replay in found.replays:
        for number, (run, each) in enumerate(zip(found.runs, replay.timings, strict=True)):
            names = pa.array([instance.name for instance in found.pool.instances])
            columns: dict[str, Any] = {
                "cell_id": pa.array([run.spec.cell_id] * len(run)),
                "request": run.request.astype(np.int32),
                "instance": names.take(pa.array(run.instance, mask=run.instance < 0)),
                "step_times": pa.array([replay.source] * len(run)),
                "held_out": found.blocks.judged(number, run.dispatched_s),
                "compared": each.compared,
                "dispatched_s": pa.array(run.dispatched_s, from_pandas=True),
            }
            for k, metric in enumerate(METRICS):
                columns[f"live_{metric}_s"] = pa.array(each.live[:, k], from_pandas=True)
                columns[f"replayed_{metric}_s"] = pa.array(each.replayed[:, k], from_pandas=True)
            parts.append(pa.table(columns))
    return pa.concat_tables(parts)


def summary(found: Fidelity) -> dict[str, Any]:
    """Every figure; null where there is none."""
    content = {
        "sweep": found.sweep.manifest.get("name"),
        "simulated": found.simulated,
        "time_scale": found.time_scale,
        "cells": [run.spec.cell_id for run in found.runs],
        "left_out": [
            {"cell_id": cell.spec.cell_id, "reasons": list(cell.reasons)} for cell in found.sweep.invalid
        ],
        "populations": asdict(found.populations),
        "blocks": {
            "block_s": found.blocks.block_s,
            "blocks": len(found.blocks.held_out),
            "held_out": int(found.blocks.held_out.sum()),
        },
        "step_times": [
            {
                "tier": each.tier,
                "steps": each.steps,
                "windows": each.windows,
                "window_s": each.window_s,
                "answers": each.answers,
                "aligned": each.aligned,
                "measured_s": each.measured_s,
                "pool_file_s": each.believed_s,
                "outside_s": found.outside_s.get(each.tier),
                "refused": each.refused,
                "report": None if each.report is None else each.report.as_json(),
            }
            for each in found.fits
        ],
        "errors": [asdict(row) for row in found.errors],
        "throughput": [
            {**asdict(row), "window_error": row.window_error, "tokens_error": row.tokens_error}
            for row in found.throughput
        ],
        "tier_mix": [{**asdict(row), "moved": row.moved} for row in found.mixes],
        "orders": [_order(row) for row in found.orders],
        "policies_not_run_again": found.no_policies or None,
        "lengths_seen": found.lengths_seen,
        "fitted": any(row.source == FITTED for row in found.errors),
        "headline": list(headline(found)),
        "warnings": list(warnings(found)),
    }
    plain: dict[str, Any] = _plain(content)
    return plain


def _order(row: Any) -> dict[str, Any]:
    swaps = [{**asdict(swap), "is_clear": swap.is_clear} for swap in row.swaps]
    return {**asdict(row), "swaps": swaps}


def _plain(value: Any) -> Any:
    """JSON has no word for NaN."""
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if is_dataclass(value) and not isinstance(value, type):
        return _plain(asdict(value))
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def markdown(found: Fidelity) -> str:
    """The whole finding as one document."""
    name = markdown_text(str(found.sweep.manifest.get("name", "")))
    stamp = " (SIMULATED ENGINE)" if found.simulated else ""
    lines = [f"# {name}: the simulator beside live servers{stamp}", ""]
    for sentence in headline(found):
        lines += [markdown_text(sentence), ""]
    lines += [f"- {markdown_text(sentence)}" for sentence in warnings(found)]
    for table in all_tables(found):
        lines += ["", *markdown_table(table)]
    return "\n".join(lines) + "\n"
