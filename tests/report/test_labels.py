"""Labels that are not the ones the sweep was scored by, or no labels at all, are refused."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rbx.cli.main import run
from rbx.errors import StoreError
from rbx.report.labels import read_labels
from rbx.report.load import read_sweep
from tests.report.sweeps import MODELS, POLICIES, SweepShape, write_sweep

P, M = 10, len(MODELS)
_SHAPE = SweepShape(policies=POLICIES[4:6], rates_per_s=(6.0,), n_prompts=P, n_requests=P)
Change = Callable[[pa.Table], pa.Table]


def _as(name: str, values: pa.Array) -> Change:
    return lambda table: table.set_column(table.schema.get_field_index(name), name, values)


def _put(name: str, row: int, value: object) -> Change:
    def change(table: pa.Table) -> pa.Table:
        values = table[name].to_pylist()
        values[row] = value
        kind = table.schema.field(name).type
        return _as(name, pa.array(values, kind))(table)

    return change


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (_as("score", pa.array(["0.5"] * P * M)), "column score is of type string, not double"),
        (_as("prompt_id", pa.array(range(P * M))), "column prompt_id is of type int64, not string"),
        (_as("output_tokens", pa.array([1.5] * P * M)), "column output_tokens is of type double, not int32"),
        (_as("output_tokens", pa.array([2**40] * P * M)), "column output_tokens holds values beyond int32"),
        (_put("score", 7, 1.5), "row 7: column score: 1.5 is outside [0, 1]"),
        (_put("score", 7, -0.1), "row 7: column score: -0.1 is outside [0, 1]"),
        (_put("score", 7, float("nan")), "row 7: column score: nan is outside [0, 1]"),
        (_put("prompt_id", 5, None), "row 5: column prompt_id: None is null"),
        (_put("model", 5, None), "row 5: column model: None is null"),
        (_put("model", 5, "gpt-0"), "row 5: column model: 'gpt-0' is not in the pool"),
        (_put("output_tokens", 2, None), "row 2: column output_tokens: None is null"),
        (_put("input_tokens", 2, -4), "row 2: column input_tokens: -4 is negative"),
        (_put("prompt_id", M, "p00000"), f"row {M}: prompt 'p00000' and model '{MODELS[0]}' stand twice"),
        (lambda t: t.slice(1), f"row 0: prompt 'p00000' has no row of model '{MODELS[0]}'"),
        (lambda t: t.filter(pa.array([True, True, True, False] * P)), f"no row of model '{MODELS[3]}'"),
        (lambda t: t.slice(0, 0), "holds no row"),
        (lambda t: t.drop_columns(["model", "score"]), "no column model; no column score"),
    ],
)
def test_wrong_labels_name_file_column_and_row(tmp_path: Path, change: Change, words: str) -> None:
    folder = write_sweep(tmp_path / "s", _SHAPE)
    path = folder / "labels.parquet"
    pq.write_table(change(pq.read_table(path)), path)
    with pytest.raises(StoreError, match=r"labels\.parquet: ") as refused:
        read_sweep(folder)
    assert words in str(refused.value)


def test_labels_changed_after_the_sweep_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_sweep(tmp_path / "s", _SHAPE)
    path, manifest_path = folder / "labels.parquet", folder / "manifest.json"
    manifest = json.loads(manifest_path.read_text())
    manifest["labels_sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
    manifest_path.write_text(json.dumps(manifest))
    assert len(read_sweep(folder).cells) == 2
    pq.write_table(_put("score", 7, 0.123)(pq.read_table(path)), path)
    assert run(["report", str(folder)]) == 1
    assert "labels_sha256" in capsys.readouterr().err
    manifest["labels_sha256"] = None
    manifest_path.write_text(json.dumps(manifest))
    assert len(read_sweep(folder).cells) == 2


def test_scores_stand_where_their_prompt_and_model_say(tmp_path: Path) -> None:
    """Read in any order of rows; a null stays a gap, zero stays zero."""
    folder = write_sweep(tmp_path / "s", _SHAPE)
    path = folder / "labels.parquet"
    table = _put("score", 6, None)(_put("score", 9, 0.0)(pq.read_table(path)))
    order = np.random.default_rng(0).permutation(P * M)
    pq.write_table(table.take(pa.array(order)), path)
    labels = read_labels(path, frozenset(MODELS), None)
    asked = ("p00002", "p00001")
    some = labels.of(asked)
    assert some.prompt_ids == asked
    assert some.score.shape == (2, M)
    known = {
        (row["prompt_id"], row["model"]): np.nan if row["score"] is None else row["score"]
        for row in table.to_pylist()
    }
    expected = [[known[prompt, model] for model in some.models] for prompt in asked]
    np.testing.assert_array_equal(some.score, expected)
    assert np.isnan(some.score).sum() == 1
    assert some.score[0, some.models.index(MODELS[1])] == 0.0
