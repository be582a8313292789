"""What is refused, what is set aside as invalid, and what is only listed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rbx.errors import StoreError
from rbx.report.load import read_sweep
from tests.report.sweeps import POLICIES, SweepShape, Tamper, write_sweep

_SMALL = SweepShape(policies=POLICIES[4:7], rates_per_s=(6.0,), n_prompts=20, n_requests=25)


def _lose_a_record(columns: dict[str, Any], summary: dict[str, Any]) -> None:
    for name, values in columns.items():
        columns[name] = values[:-1]


def _repeat_a_request(columns: dict[str, Any], summary: dict[str, Any]) -> None:
    columns["request"] = np.concatenate([columns["request"][:-1], [0]])


def _miscount(columns: dict[str, Any], summary: dict[str, Any]) -> None:
    summary["ok"] -= 1


def _forget_unsent(columns: dict[str, Any], summary: dict[str, Any]) -> None:
    summary["not_sent"] = 2


def _null_end(columns: dict[str, Any], summary: dict[str, Any]) -> None:
    columns["done_s"][3] = np.nan


def _end_before_start(columns: dict[str, Any], summary: dict[str, Any]) -> None:
    columns["done_s"][3] = columns["first_token_s"][3] - 0.5


def _impossible_score(columns: dict[str, Any], summary: dict[str, Any]) -> None:
    columns["quality"][0] = 11.0


def _nan_score(columns: dict[str, Any], summary: dict[str, Any]) -> None:
    columns["quality"] = pa.array(np.where(np.arange(25) == 1, np.nan, 0.5), from_pandas=False)


def _negative_cost(columns: dict[str, Any], summary: dict[str, Any]) -> None:
    columns["cost_usd"][2] = -1.0


def _strange_status(columns: dict[str, Any], summary: dict[str, Any]) -> None:
    columns["status"] = np.where(np.arange(25) == 4, "lost", columns["status"])


@pytest.mark.parametrize(
    ("tamper", "words"),
    [
        (_lose_a_record, "24 records for 25 scheduled"),
        (_repeat_a_request, "1 requests stand more than once, the first is request 0"),
        (_miscount, "25 records are ok, the summary says 24"),
        (_forget_unsent, "scheduled 25 ≠ sent 25 + not sent 2"),
        (_null_end, "1 ok requests have no done_s, the first is request 3"),
        (_end_before_start, "done_s before first_token_s, as request 3"),
        (_impossible_score, "column quality holds 11, above 1"),
        (_nan_score, "column quality holds NaN"),
        (_negative_cost, "column cost_usd holds a negative value"),
        (_strange_status, "unknown status 'lost'"),
    ],
)
def test_a_cell_that_does_not_add_up_is_set_aside_and_the_others_stay(
    tmp_path: Path, tamper: Tamper, words: str
) -> None:
    sweep = read_sweep(write_sweep(tmp_path / "s", replace(_SMALL, tamper={1: tamper})))
    assert [cell.spec.label for cell in sweep.cells] == [POLICIES[4].label, POLICIES[6].label]
    (bad,) = sweep.invalid
    assert bad.spec.label == POLICIES[5].label
    assert any(words in reason for reason in bad.reasons), bad.reasons


def test_records_changed_after_the_run_are_set_aside(tmp_path: Path) -> None:
    folder = write_sweep(tmp_path / "s", _SMALL)
    path = sorted((folder / "cells").glob("*.parquet"))[0]
    table = pq.read_table(path)
    pq.write_table(table.slice(0, table.num_rows), path, compression="gzip")
    (bad,) = read_sweep(folder).invalid
    assert "is not the file its summary was written for" in bad.reasons[0]
    path.write_bytes(b"PAR1 not a parquet file")
    (bad,) = read_sweep(folder).invalid
    assert path.name in bad.reasons[0]


def test_unfinished_cells_are_listed(tmp_path: Path) -> None:
    sweep = read_sweep(write_sweep(tmp_path / "s", replace(_SMALL, skip=frozenset({0}))))
    assert [spec.label for spec in sweep.missing] == [POLICIES[4].label]
    assert len(sweep.cells) == 2


def test_nothing_to_report_is_an_error_that_says_why(tmp_path: Path) -> None:
    shape = replace(_SMALL, skip=frozenset({0, 1}), tamper={2: _miscount})
    with pytest.raises(StoreError, match=r"1 invalid, 2 not finished(.|\n)*the summary says 24"):
        read_sweep(write_sweep(tmp_path / "s", shape))
    with pytest.raises(StoreError, match=r"no manifest\.json"):
        read_sweep(tmp_path / "nowhere")


def test_strict_names_the_rows_without_a_score(tmp_path: Path) -> None:
    folder = write_sweep(tmp_path / "s", replace(_SMALL, unlabelled=0.2))
    sweep = read_sweep(folder)
    unscored = sum(int((cell.requests.ok & ~cell.requests.scored).sum()) for cell in sweep.cells)
    assert sweep.unmatched == unscored > 0
    with pytest.raises(StoreError, match=rf"{unscored} completed requests(.|\n)*prompt p0.*: missing"):
        read_sweep(folder, strict=True)
    whole = write_sweep(tmp_path / "t", _SMALL)
    assert read_sweep(whole, strict=True).unmatched == 0


def test_bad_labels_name_file_and_row(tmp_path: Path) -> None:
    folder = write_sweep(tmp_path / "s", _SMALL)
    path = folder / "labels.parquet"
    labels = pq.read_table(path)
    pq.write_table(pa.concat_tables([labels, labels.slice(0, 1)]), path)
    with pytest.raises(StoreError, match=r"labels\.parquet: row 80: .*stand twice"):
        read_sweep(folder)
    pq.write_table(labels.drop_columns(["score"]), path)
    with pytest.raises(StoreError, match=r"labels\.parquet: no column score"):
        read_sweep(folder)
    path.unlink()
    with pytest.raises(StoreError, match=r"labels\.parquet: no such file"):
        read_sweep(folder)
