"""Cell files of another shape than rbx writes: the cell is set aside, with column or key named."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rbx.report.columns import column_faults
from rbx.report.load import Sweep, read_sweep
from rbx.sweep.records import RECORDS
from tests.report.sweeps import POLICIES, SweepShape, write_sweep

N = 25
_SHAPE = SweepShape(policies=POLICIES[4:7], rates_per_s=(6.0,), n_prompts=20, n_requests=N)


def _first_cell(folder: Path) -> str:
    return str(json.loads((folder / "manifest.json").read_text())["cells"][0]["cell_id"])


def _rewritten(folder: Path, change: Callable[[pa.Table], pa.Table]) -> Sweep:
    """The sweep after a change to the first cell's records that its summary vouches for."""
    path = folder / "cells" / f"{_first_cell(folder)}.parquet"
    pq.write_table(change(pq.read_table(path)), path)
    summary = json.loads(path.with_suffix(".json").read_text())
    summary["records_sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
    path.with_suffix(".json").write_text(json.dumps(summary))
    return read_sweep(folder)


def _as(name: str, values: pa.Array) -> Callable[[pa.Table], pa.Table]:
    return lambda table: table.set_column(table.schema.get_field_index(name), name, values)


def _twice(table: pa.Table) -> pa.Table:
    return table.append_column("quality", table["quality"])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (_as("quality", pa.array(["0.5"] * N)), "column quality is of type string, not double"),
        (_as("exhausted", pa.array(["no"] * N)), "column exhausted is of type string, not bool"),
        (_as("slo_met", pa.array([1] * N)), "column slo_met is of type int64, not bool"),
        (_as("prompt_id", pa.array(range(N))), "column prompt_id is of type int64, not string"),
        (_as("model", pa.array([["a"]] * N)), "column model is of type list<"),
        (_as("request", pa.array(np.arange(N) / 1.0)), "column request is of type double, not int32"),
        (_as("output_tokens", pa.array([2**60] * N)), "column output_tokens holds values beyond int32"),
        (
            _as("preemptions", pa.array([2**63] * N, pa.uint64())),
            "column preemptions holds values beyond int",
        ),
        (_as("cost_usd", pa.nulls(N)), "column cost_usd is of type null, not double"),
        (lambda table: table.drop_columns(["tier"]), "no column tier"),
        (_twice, "can't be read: Multiple matches"),
    ],
)
def test_records_of_a_wrong_type_set_their_cell_aside(
    tmp_path: Path, change: Callable[[pa.Table], pa.Table], words: str
) -> None:
    sweep = _rewritten(write_sweep(tmp_path / "s", _SHAPE), change)
    assert len(sweep.cells) == 2
    (bad,) = sweep.invalid
    (reason,) = bad.reasons
    assert words in reason


def test_other_widths_and_plain_text_are_read_the_same(tmp_path: Path) -> None:
    folder = write_sweep(tmp_path / "s", _SHAPE)
    before = read_sweep(folder).cells[0].requests

    def widen(table: pa.Table) -> pa.Table:
        wide = [
            pa.field(f.name, pa.string())
            if pa.types.is_dictionary(f.type)
            else pa.field(f.name, pa.int64())
            if pa.types.is_integer(f.type)
            else f
            for f in RECORDS
        ]
        return table.cast(pa.schema(wide))

    after = _rewritten(folder, widen).cells[0].requests
    for name in ("model", "output_tokens", "prompt", "status", "cost_usd"):
        np.testing.assert_array_equal(getattr(after, name), getattr(before, name))


def test_text_that_is_no_utf8_sets_its_cell_aside(tmp_path: Path) -> None:
    folder = write_sweep(tmp_path / "s", _SHAPE)
    broken = pa.array([b"\xff\xfe"] * N, pa.binary()).view(pa.string())
    (bad,) = _rewritten(folder, _as("prompt_id", broken)).invalid
    assert "can't be read" in bad.reasons[0]
    assert "UTF8" in bad.reasons[0]


def test_the_schema_fits_itself() -> None:
    assert column_faults(RECORDS.empty_table(), RECORDS) == []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"busy_s": None}, "busy_s: Input should be"),
        ({"busy_s": {"3b-a30/0": "much"}}, "busy_s.3b-a30/0: Input should be a valid number"),
        ({"busy_s": {"3b-a30/0": -1.0}}, "busy_s.3b-a30/0: Input should be greater than or equal to 0"),
        ({"duration_s": None}, "duration_s: Input should be a valid number"),
        ({"duration_s": float("nan")}, "duration_s: Input should be a finite number"),
        ({"ok": 25.5}, "ok: Input should be a valid integer"),
        ({"ok": True}, "ok: Input should be a valid integer"),
        ({"steps": "250"}, "steps: Input should be a valid integer"),
        ({"extra": 1}, "extra: Extra inputs are not permitted"),
        ({"cell_id": "another"}, "the summary is of cell 'another'"),
    ],
)
def test_a_cell_file_of_a_wrong_shape_sets_its_cell_aside(
    tmp_path: Path, change: dict[str, Any], words: str
) -> None:
    folder = write_sweep(tmp_path / "s", _SHAPE)
    path = folder / "cells" / f"{_first_cell(folder)}.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    sweep = read_sweep(folder)
    assert len(sweep.cells) == 2
    (bad,) = sweep.invalid
    assert any(words in reason for reason in bad.reasons), bad.reasons


@pytest.mark.parametrize("text", ["", "[]", "null", '{"ok": ', "{}"])
def test_a_cell_file_that_is_no_summary_sets_its_cell_aside(tmp_path: Path, text: str) -> None:
    folder = write_sweep(tmp_path / "s", _SHAPE)
    path = folder / "cells" / f"{_first_cell(folder)}.json"
    path.write_text(text)
    (bad,) = read_sweep(folder).invalid
    assert bad.spec.cell_id == path.stem
    assert all(reason.startswith(f"{path.name}: ") for reason in bad.reasons)
