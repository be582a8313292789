"""Traces of steps: what is written is read back, and no impossible row gets through."""

from __future__ import annotations

import csv
import gzip
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rbx.engine.step_trace import STEP_TRACE, StepTrace, read_step_trace, write_step_trace
from rbx.errors import DatasetError

Columns = dict[str, Any]
COUNTS = [name for name in STEP_TRACE.names if not name.endswith("_s")]


def columns() -> Columns:
    """Four steps: two prompt chunks, a mixed step, decoding alone, and a step after a pause."""
    return {
        "start_s": [5.0, 5.0, 5.2, 9.0],
        "end_s": [5.2, 5.5, 5.6, 9.25],
        "decodes": [0, 1, 3, 2],
        "decode_context_tokens": [0, 40, 130, 90],
        "prefill_tokens": [30, 16, 0, 0],
        "prefill_chunk_squared_tokens": [500, 256, 0, 0],
        "prefill_cross_tokens": [0, 16 * 20, 0, 0],
        "prefill_requests": [2, 1, 0, 0],
    }


def written(path: Path, values: Columns) -> Path:
    write_step_trace(path, values, {"engine": {"max_num_seqs": 8}})
    return path


def as_csv(path: Path, values: Columns) -> Path:
    opener: Any = gzip.open if path.suffix == ".gz" else open
    with opener(path, "wt", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(values)
        writer.writerows(zip(*values.values(), strict=True))
    return path


def same(a: StepTrace, b: StepTrace) -> None:
    assert (a.context is None) == (b.context is None)
    for name in ("start_s", "end_s", "decodes", "prefill_tokens", "prefill_requests"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
    if a.context is not None and b.context is not None:
        for name in vars(a.context):
            np.testing.assert_array_equal(getattr(a.context, name), getattr(b.context, name))


@pytest.mark.parametrize("name", ["trace.csv", "trace.csv.gz"])
def test_what_is_written_is_read_back_in_either_format(name: str, tmp_path: Path) -> None:
    trace = read_step_trace(written(tmp_path / "trace.parquet", columns()))
    assert len(trace) == 4
    assert trace.metadata == {"engine": {"max_num_seqs": 8}}
    assert trace.context is not None
    assert trace.context.prefill_cross_tokens.tolist() == [0, 320, 0, 0]
    assert pq.read_schema(tmp_path / "trace.parquet").remove_metadata() == STEP_TRACE
    same(trace, read_step_trace(as_csv(tmp_path / name, columns())))


def test_a_step_lasts_from_the_later_of_its_start_and_the_end_before(tmp_path: Path) -> None:
    trace = read_step_trace(written(tmp_path / "trace.parquet", columns()))
    np.testing.assert_allclose(trace.interval_s, [0.2, 0.3, 0.1, 0.25])


def test_sums_may_be_absent_or_null_throughout(tmp_path: Path) -> None:
    bare = {name: columns()[name] for name in ("start_s", "end_s", "decodes", "prefill_tokens")}
    trace = read_step_trace(written(tmp_path / "trace.parquet", bare))
    assert trace.context is None
    assert trace.prefill_requests is None
    same(trace, read_step_trace(as_csv(tmp_path / "trace.csv", bare)))
    empty = {**columns(), **{name: [""] * 4 for name in COUNTS if name not in ("decodes", "prefill_tokens")}}
    same(trace, read_step_trace(as_csv(tmp_path / "null.csv", empty)))


BAD = {
    "NaN": (float("nan"), "must be finite|not a finite number"),
    "infinite": (float("inf"), "must be finite"),
    "negative": (-1, "can't be negative|not after|before that of the row above"),
    "a fraction": (2.5, "whole number"),
    "huge": (1e17, "whole number"),
}


@settings(max_examples=80, deadline=None)
@given(
    name=st.sampled_from(COUNTS),
    row=st.integers(0, 3),
    what=st.sampled_from(sorted(BAD)),
    as_text=st.booleans(),
)
def test_a_bad_cell_is_refused_with_file_row_and_column(
    tmp_path_factory: pytest.TempPathFactory, name: str, row: int, what: str, as_text: bool
) -> None:
    values = columns()
    value, said = BAD[what]
    values[name] = [value if at == row else cell for at, cell in enumerate(values[name])]
    folder = tmp_path_factory.mktemp("bad")
    if as_text:
        path = as_csv(folder / "trace.csv", values)
    else:
        path = folder / "trace.parquet"
        pq.write_table(pa.table(values), path)
    with pytest.raises(DatasetError, match=said) as refusal:
        read_step_trace(path)
    assert f"{path}: row {row + 1}, {name}: " in str(refusal.value)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"start_s": [5.0, 5.0, 4.9, 9.0]}, "row 3, start_s: 4.9 lies before that of the row above"),
        ({"start_s": [5.0, 5.0, float("nan"), 9.0]}, "row 3, start_s: 'nan' is not a finite number"),
        ({"start_s": [-1e13, 5.0, 5.2, 9.0]}, "row 1, start_s: -10000000000000 is no time in seconds"),
        ({"end_s": [5.2, 5.5, 5.6, float("inf")]}, "row 4, end_s: inf must be finite"),
        ({"end_s": [5.2, 5.5, 5.2, 9.25]}, "row 3, end_s: 5.2 is not after start_s"),
        ({"end_s": [5.2, 5.5, 5.5, 9.25]}, "row 3, end_s: 5.5 is not after that of the row above"),
        ({"decodes": [0, 1, 0, 2], "decode_context_tokens": [0, 40, 0, 90]}, "row 3, decodes: 0 and prefill"),
        ({"decode_context_tokens": [7, 40, 130, 90]}, "row 1, decode_context_tokens: 7 but decodes is 0"),
        ({"prefill_chunk_squared_tokens": [901, 256, 0, 0]}, "row 1, prefill_chunk_squared_tokens: 901 must"),
        ({"prefill_chunk_squared_tokens": [29, 256, 0, 0]}, "row 1, prefill_chunk_squared_tokens: 29 must"),
        ({"prefill_cross_tokens": [0, 320, 0, 5]}, "row 4, prefill_cross_tokens: 5 but prefill_tokens is 0"),
        ({"prefill_requests": [0, 1, 0, 0]}, "row 1, prefill_requests: 0 does not go with"),
        ({"decodes": [0, 1, "three", 2]}, "row 3, decodes: 'three' is not a finite number"),
        ({"decodes": [0, 1, "", 2]}, "row 3, decodes: empty"),
        ({"prefill_cross_tokens": [0, "", 0, 0]}, "row 2, prefill_cross_tokens: empty"),
    ],
)
def test_rows_that_no_engine_executed_are_refused(change: Columns, said: str, tmp_path: Path) -> None:
    path = as_csv(tmp_path / "trace.csv", {**columns(), **change})
    with pytest.raises(DatasetError, match=re.escape(f"{path}: {said}")):
        read_step_trace(path)


def test_a_writer_is_held_to_the_same_rules(tmp_path: Path) -> None:
    path = tmp_path / "trace.parquet"
    faults: list[tuple[Columns, str]] = [
        ({"end_s": [5.2, 5.5, 5.2, 9.25]}, "row 3, end_s"),
        ({"decodes": [0, 1, 3]}, "columns differ in length"),
        ({"colour": [1, 2, 3, 4]}, "unknown column colour"),
        ({"decodes": [True, True, True, True]}, "row 1, decodes: 'True' is not a finite number"),
        ({"prefill_cross_tokens": None}, "prefill_cross_tokens is absent .* record all three sums or none"),
    ]
    for change, said in faults:
        with pytest.raises(DatasetError, match=said):
            write_step_trace(path, {**columns(), **change}, {})
    with pytest.raises(DatasetError, match=r"name it \.parquet"):
        write_step_trace(tmp_path / "trace.csv", columns(), {})
    assert list(tmp_path.iterdir()) == []


def test_files_that_hold_no_trace_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="no such step trace"):
        read_step_trace(tmp_path / "absent.parquet")
    (tmp_path / "trace.txt").write_text("x")
    with pytest.raises(DatasetError, match="unknown kind of file"):
        read_step_trace(tmp_path / "trace.txt")
    (tmp_path / "trace.parquet").write_bytes(b"no parquet")
    with pytest.raises(DatasetError, match="can't be read as a step trace"):
        read_step_trace(tmp_path / "trace.parquet")
    (tmp_path / "empty.csv").write_text("")
    with pytest.raises(DatasetError, match="can't be read as a step trace"):
        read_step_trace(tmp_path / "empty.csv")
    with pytest.raises(DatasetError, match="holds no rows"):
        read_step_trace(as_csv(tmp_path / "rows.csv", {name: [] for name in columns()}))
    fewer = as_csv(tmp_path / "fewer.csv", {n: values for n, values in columns().items() if n != "end_s"})
    with pytest.raises(DatasetError, match="no column end_s; a trace has start_s, end_s, decodes"):
        read_step_trace(fewer)


@pytest.mark.parametrize("name", ["trace.csv", "trace.csv.gz"])
def test_names_in_another_encoding_are_refused(name: str, tmp_path: Path) -> None:
    path = as_csv(tmp_path / name, columns())
    opener: Any = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rb") as file:
        plain = file.read()
    for content in (b"\xff\xfe" + plain, b"\xff\xfe" + plain.decode().encode("utf-16-le")):
        with opener(path, "wb") as file:
            file.write(content)
        with pytest.raises(DatasetError, match=re.escape(str(path)) + ".*(UTF-8|can't be read)"):
            read_step_trace(path)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize("name", ["decodes", "start_s", "prefill_requests"])
def test_a_column_given_twice_is_refused_by_name(name: str, kind: str, tmp_path: Path) -> None:
    values = columns()
    path = tmp_path / f"trace.{kind}"
    table = pa.table([pa.array(cells) for cells in [*values.values(), values[name]]], names=[*values, name])
    if kind == "parquet":
        pq.write_table(table, path)
    else:
        pa_csv.write_csv(table, path)
    with pytest.raises(DatasetError, match=re.escape(f"{path}: column {name} given more than once")):
        read_step_trace(path)
    # Other tools' columns are theirs to double.
    other = table.rename_columns([*values, "note"]).append_column("note", table.column(0))
    pq.write_table(other, tmp_path / "other.parquet")
    assert len(read_step_trace(tmp_path / "other.parquet")) == 4


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_a_damaged_file_is_refused_or_read(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("damaged")
    name = data.draw(st.sampled_from(["trace.parquet", "trace.csv", "trace.csv.gz"]))
    path = (written if name.endswith("parquet") else as_csv)(folder / name, columns())
    content = bytearray(path.read_bytes())
    at = st.integers(0, len(content) - 1)
    for place, byte in data.draw(
        st.lists(st.tuples(at, st.sampled_from([0, 34, 44, 254, 255])), min_size=1, max_size=6)
    ):
        content[place] = byte
    path.write_bytes(content)
    refusal = ""
    try:
        steps = len(read_step_trace(path))
    except DatasetError as error:
        refusal, steps = str(error), 0
    assert steps >= 1 or str(path) in refusal


def test_text_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    raw = pa.array([b"1", b"\xff\xfe", b"3", b"2"], pa.binary())
    named = pa.table({**columns(), "note": [b"1", b"2", b"3", b"4"]})
    pq.write_table(named, tmp_path / "named.parquet", store_schema=False)
    damaged = (tmp_path / "named.parquet").read_bytes().replace(b"note", b"\xff\xfete")
    (tmp_path / "named.parquet").write_bytes(damaged)
    with pytest.raises(DatasetError, match=r"named\.parquet: .*utf-8"):
        read_step_trace(tmp_path / "named.parquet")
    text = pa.StringArray.from_buffers(4, *raw.buffers()[1:])
    path = tmp_path / "trace.parquet"
    pq.write_table(pa.table({**columns(), "decodes": text}), path)
    with pytest.raises(DatasetError, match=re.escape(f"{path}: decodes: not UTF-8")):
        read_step_trace(path)


def test_notes_of_other_tools_do_no_harm(tmp_path: Path) -> None:
    table = pa.table(columns()).replace_schema_metadata(
        {"pandas": '{"index": 1}', "tool": "not json", "deep": "[" * 100_000}
    )
    pq.write_table(table, tmp_path / "trace.parquet")
    assert read_step_trace(tmp_path / "trace.parquet").metadata == {
        "pandas": {"index": 1},
        "tool": "not json",
        "deep": "[" * 100_000,
    }
