"""The table source: anybody's CSV, JSON lines and Parquet, long and wide."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rbx.errors import ConfigError, DatasetError
from rbx.grid.store import open_view
from tests.grid.building import build, loaded
from tests.grid.sources import write_jsonl

LONG = {"prompt": "prompt", "model": "model", "score": "score", "output_tokens": "tokens"}


def long_source(path: Path, **more: Any) -> dict[str, Any]:
    return {"kind": "table", "layout": "long", "path": str(path), "columns": LONG} | more


def wide_source(path: Path) -> dict[str, Any]:
    models = {"a": {"score": "a_score", "output_tokens": "a_tokens"}, "b": {"score": "b_score"}}
    return {
        "kind": "table",
        "layout": "wide",
        "path": str(path),
        "columns": {"prompt": "text"},
        "models": models,
    }


CSV = "prompt,model,score,tokens\nhello,x,0,5\nhello,y,0.5,6\nbye,x,1,7\n"


def test_a_csv_in_the_long_layout(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text(CSV)
    built = build(long_source(tmp_path / "rows.csv"), tmp_path / "grid")
    view = open_view(tmp_path / "grid")
    assert view.prompts == ("hello", "bye")
    assert view.score[0].tolist() == [0.0, 0.5]
    assert view.score[1, 0] == 1.0
    assert np.isnan(view.score[1, 1])
    assert view.output_tokens[0].tolist() == [5.0, 6.0]
    assert view.input_tokens.tolist() == [2, 1]
    assert built.manifest.provenance["input_tokens"] == "estimated: characters / 4"


def test_the_same_rows_give_the_same_tables_from_every_format(tmp_path: Path) -> None:
    rows = [
        {"prompt": "hello", "model": "x", "score": 0.0, "tokens": 5},
        {"prompt": "hello", "model": "y", "score": 0.5, "tokens": 6},
        {"prompt": "bye", "model": "x", "score": 1.0, "tokens": 7},
    ]
    (tmp_path / "rows.csv").write_text(CSV)
    write_jsonl(tmp_path / "rows.jsonl.gz", rows)
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "rows.parquet")
    scores = []
    for name in ("rows.csv", "rows.jsonl.gz", "rows.parquet"):
        build(long_source(tmp_path / name), tmp_path / "grid", force=True)
        labels = pq.read_table(tmp_path / "grid" / "labels.parquet").to_pylist()
        scores.append([(row["prompt_id"], row["model"], row["score"], row["status"]) for row in labels])
    assert len(scores[0]) == 4
    assert scores[0] == scores[1] == scores[2]


def test_a_byte_order_mark_is_no_part_of_the_first_column(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_bytes(b"\xef\xbb\xbf" + CSV.encode())
    build(long_source(tmp_path / "rows.csv"), tmp_path / "grid")
    assert open_view(tmp_path / "grid").prompts == ("hello", "bye")


def test_the_wide_layout_with_empty_cells(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("text,a_score,a_tokens,b_score\none,0,3,1\ntwo,,,0\nthree,1,4,\n")
    build(wide_source(tmp_path / "rows.csv"), tmp_path / "grid")
    view = open_view(tmp_path / "grid")
    assert view.models == ("a", "b")
    np.testing.assert_array_equal(view.score, [[0.0, 1.0], [np.nan, 0.0], [1.0, np.nan]])
    responses = pq.read_table(tmp_path / "grid" / "responses.parquet")["status"].to_pylist()
    assert responses == ["ok", "ok", "missing", "ok", "ok", "missing"]


def test_scores_of_another_scale_are_mapped(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("prompt,model,score,tokens\np,x,1,5\np,y,10,6\nq,x,5.5,6\n")
    build(long_source(tmp_path / "rows.csv", score_range={"low": 1, "high": 10}), tmp_path / "grid")
    np.testing.assert_allclose(open_view(tmp_path / "grid").score, [[0.0, 1.0], [0.5, np.nan]])


def test_truth_values_are_scores(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("prompt,model,score,tokens\np,x,True,5\np,y,false,6\n")
    build(long_source(tmp_path / "rows.csv"), tmp_path / "grid")
    assert open_view(tmp_path / "grid").score.tolist() == [[1.0, 0.0]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "rows.csv: empty; expected a header line"),
        ("prompt,model,score,tokens\n", "holds no prompt"),
        (CSV + "bye,y,2,7\n", r"rows.csv, row 4, column score: the score '2' is outside \[0, 1\]"),
        (CSV + "bye,y,nan,7\n", "rows.csv, row 4, column score: 'nan' is not finite"),
        (CSV + "bye,y,-inf,7\n", "rows.csv, row 4, column score: '-inf' is not finite"),
        (CSV + "bye,y,good,7\n", "rows.csv, row 4, column score: expected a number, found 'good'"),
        (CSV + "bye,y,1\n", "rows.csv, row 4: 3 cells, but the header names 4"),
        (CSV + "bye,x,1,7\n", "rows.csv, row 4, column score: a second answer of 'x' to the same prompt"),
        (CSV + "bye,,1,7\n", "rows.csv, row 4, column model: is empty"),
        (CSV + "bye,y,1,-7\n", "rows.csv, row 4, column tokens: '-7' is not a whole number"),
        (CSV + 'bye,y,"1,7\n', "rows.csv, line 5: not valid CSV"),
        ("prompt,model,score,score\np,x,1,1\n", "the header names column 'score' twice"),
        ("prompt,model,score\np,x,1\n", "rows.csv: no column 'tokens'; it has model, prompt, score"),
        ("prompt,score,tokens\np,1,1\n", "rows.csv, row 1, column model: missing; the row has prompt"),
    ],
)
def test_a_bad_csv_is_named_by_file_row_and_column(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "rows.csv").write_text(text)
    with pytest.raises(DatasetError, match=message):
        build(long_source(tmp_path / "rows.csv"), tmp_path / "grid")
    assert not (tmp_path / "grid").exists()


def test_a_missing_column_of_one_model_is_named(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("text,a_score,a_tokens\none,0,3\n")
    with pytest.raises(DatasetError, match="no column 'b_score'; it has a_score, a_tokens, text"):
        build(wide_source(tmp_path / "rows.csv"), tmp_path / "grid")


def test_bytes_that_are_not_utf8_are_refused(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_bytes(CSV.encode() + b"caf\xe9,x,1,2\n")
    with pytest.raises(DatasetError, match=r"rows\.csv: not valid UTF-8 .*save the file as UTF-8"):
        build(long_source(tmp_path / "rows.csv"), tmp_path / "grid")
    (tmp_path / "rows.jsonl").write_bytes(b'{"prompt": "caf\xe9"}\n')
    with pytest.raises(DatasetError, match=r"rows\.jsonl, row 1: not valid UTF-8 at byte"):
        build(long_source(tmp_path / "rows.jsonl"), tmp_path / "grid")


def test_one_id_with_two_texts_is_refused(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("id,prompt,model,score\n1,p,x,1\n1,q,y,1\n")
    columns = {"id": "id", "prompt": "prompt", "model": "model", "score": "score"}
    with pytest.raises(DatasetError, match="row 2, column id: '1' has another prompt in row 1"):
        build(long_source(tmp_path / "rows.csv", columns=columns), tmp_path / "grid")


def test_a_prompt_repeated_in_the_wide_layout_is_refused(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("text,a_score,a_tokens,b_score\none,0,3,1\none,1,3,1\n")
    with pytest.raises(DatasetError, match="row 2, column text: the same prompt as row 1"):
        build(wide_source(tmp_path / "rows.csv"), tmp_path / "grid")


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"--set source\.path=FILE"):
        build({"kind": "table", "layout": "long", "columns": LONG}, tmp_path / "grid")
    with pytest.raises(DatasetError, match=r"gone\.csv: no such file"):
        build(long_source(tmp_path / "gone.csv"), tmp_path / "grid")
    with pytest.raises(DatasetError, match=r"rows\.xls: unknown kind of file"):
        build(long_source(tmp_path / "rows.xls"), tmp_path / "grid")
    (tmp_path / "rows.parquet").write_bytes(b"PAR1 no")
    with pytest.raises(DatasetError, match=r"rows\.parquet: not a readable Parquet file"):
        build(long_source(tmp_path / "rows.parquet"), tmp_path / "grid")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "excel"}, "source"),
        ({"layout": "tall"}, "layout"),
        ({"extra": 1}, "Extra inputs are not permitted"),
        ({"score_range": {"low": 1, "high": 1}}, "low must be below high"),
        ({"score_range": {"low": float("nan")}}, "finite"),
        ({"columns": {"prompt": "p"}}, "Field required"),
        ({"metric": "../up"}, "String should match pattern"),
    ],
)
def test_a_bad_spec_names_its_key(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        loaded(long_source(tmp_path / "rows.csv") | change)
