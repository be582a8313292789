"""The zeroeval source: verified answers arrive as they are, and bad rows are named."""

from __future__ import annotations

import gzip
import hashlib
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from rbx.errors import ConfigError, DatasetError
from rbx.grid.inspection import inspect_grid
from rbx.grid.spec import load_spec
from rbx.grid.store import open_view
from rbx.grid.summary import summarise
from tests.grid.building import build, loaded, zeroeval
from tests.grid.sources import write_jsonl, write_zeroeval, zeroeval_answer, zeroeval_prompt
from tests.workplace import ROOT

SPECS = ROOT / "experiments" / "datasets"


def two_by_two(folder: Path) -> Path:
    return write_zeroeval(
        folder,
        [zeroeval_prompt("a"), zeroeval_prompt("b")],
        [
            zeroeval_answer("a", "m-7B", 0),
            zeroeval_answer("a", "m-14B", 1, tokens=100),
            zeroeval_answer("b", "m-7B", 1),
            zeroeval_answer("b", "m-14B", 0),
        ],
    )


def test_scores_lengths_and_identities_arrive(tmp_path: Path) -> None:
    build(zeroeval(two_by_two(tmp_path / "source")), tmp_path / "grid")
    view = open_view(tmp_path / "grid")
    assert view.models == ("m-7B", "m-14B")
    assert view.score.tolist() == [[0.0, 1.0], [1.0, 0.0]]
    assert view.output_tokens.tolist() == [[20.0, 100.0], [20.0, 20.0]]
    assert view.input_tokens.tolist() == [35, 35]
    assert view.prompt_ids == tuple(
        hashlib.sha256(text.encode()).hexdigest()[:16] for text in ("question a", "question b")
    )
    assert not view.synthetic


def test_an_answer_of_the_token_limit_is_marked_as_cut(tmp_path: Path) -> None:
    build(zeroeval(two_by_two(tmp_path / "source")), tmp_path / "grid")
    responses = pq.read_table(tmp_path / "grid" / "responses.parquet").to_pylist()
    assert [row["finish_reason"] for row in responses] == ["stop", "length", "stop", "stop"]
    assert [row["response"] for row in responses][1] == "m-14B on a"
    answers = inspect_grid(tmp_path / "grid").census.answers
    assert {each.model: each.truncated_share for each in answers} == {"m-7B": 0.0, "m-14B": 0.5}


def test_a_model_that_misses_a_prompt_leaves_a_null_with_a_status(tmp_path: Path) -> None:
    source = write_zeroeval(
        tmp_path / "source",
        [zeroeval_prompt("a"), zeroeval_prompt("b")],
        [zeroeval_answer("a", "x", 0), zeroeval_answer("b", "x", 1), zeroeval_answer("b", "y", 1)],
    )
    built = build(zeroeval(source), tmp_path / "grid")
    assert built.manifest.counts.labels == 4
    assert built.manifest.counts.labels_present == 3
    view = open_view(tmp_path / "grid")
    assert np.isnan(view.score[0, 1])
    assert np.isnan(view.output_tokens[0, 1])
    assert view.score[0, 0] == 0.0
    labels = pq.read_table(tmp_path / "grid" / "labels.parquet").to_pylist()
    assert (labels[1]["score"], labels[1]["status"]) == (None, "missing")
    coverage = {each.model: each.share for each in inspect_grid(tmp_path / "grid").census.labels}
    assert coverage == {"x": 1.0, "y": 0.5}


def test_the_folder_must_be_set(tmp_path: Path) -> None:
    spec = load_spec(SPECS / "zeroeval-qwen25.yaml")
    assert spec.sources["source.path"] == "default"
    with pytest.raises(ConfigError, match=r"--set source\.path=DIR"):
        build({"kind": "zeroeval"}, tmp_path / "grid")
    with pytest.raises(
        DatasetError, match=r"prompts\.jsonl\.gz: no such file; source\.path must be a folder"
    ):
        build(zeroeval(tmp_path), tmp_path / "grid")


GOOD_PROMPTS = [zeroeval_prompt("a"), zeroeval_prompt("b")]
GOOD_ANSWERS = [zeroeval_answer("a", "x", 1), zeroeval_answer("b", "x", 0)]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"score": float("nan")}, "grid.jsonl.gz, row 2, column score: nan is not finite"),
        ({"score": float("inf")}, "grid.jsonl.gz, row 2, column score: inf is not finite"),
        ({"score": 1.5}, r"row 2, column score: the score 1.5 is outside \[0, 1\]"),
        ({"score": -0.1}, r"row 2, column score: the score -0.1 is outside \[0, 1\]"),
        ({"score": "good"}, "row 2, column score: expected a number, found 'good'"),
        ({"output_tokens_qwen": -3}, "row 2, column output_tokens_qwen: -3 is not a whole number"),
        ({"output_tokens_qwen": 2.5}, "row 2, column output_tokens_qwen: 2.5 is not a whole number"),
        ({"output_tokens_qwen": None}, "row 2, column output_tokens_qwen: is empty"),
        ({"prompt_id": "zzz"}, "row 2, column prompt_id: 'zzz' is not in prompts.jsonl.gz"),
        ({"model": " "}, "row 2, column model: is empty"),
        ({"model": ["x"]}, "row 2, column model: expected text"),
        ({"response": "\ud800"}, "row 2, column response: is not valid Unicode"),
        ({"prompt_id": "a"}, "the answer of 'x' to prompt 'a' is given twice"),
    ],
)
def test_a_bad_answer_is_named_by_file_row_and_column(
    tmp_path: Path, change: dict[str, object], message: str
) -> None:
    answers = [GOOD_ANSWERS[0], GOOD_ANSWERS[1] | change]
    source = write_zeroeval(tmp_path / "source", GOOD_PROMPTS, answers)
    with pytest.raises(DatasetError, match=message):
        build(zeroeval(source), tmp_path / "grid")
    assert not (tmp_path / "grid").exists()


def test_a_column_that_is_absent_is_named(tmp_path: Path) -> None:
    answer = {key: value for key, value in GOOD_ANSWERS[1].items() if key != "score"}
    source = write_zeroeval(tmp_path / "source", GOOD_PROMPTS, [GOOD_ANSWERS[0], answer])
    with pytest.raises(DatasetError, match="row 2, column score: missing; the row has engine"):
        build(zeroeval(source), tmp_path / "grid")


@pytest.mark.parametrize(
    ("prompts", "answers", "message"),
    [
        ([], GOOD_ANSWERS, "'a' is not in prompts"),
        ([], [], "holds no prompt"),
        (GOOD_PROMPTS, [], "holds no answer"),
        ([GOOD_PROMPTS[0]] * 2, GOOD_ANSWERS, "row 2, column prompt_id: 'a' was given in row 1 already"),
        ([GOOD_PROMPTS[0] | {"prompt": "  "}], GOOD_ANSWERS[:1], "row 1, column prompt: is empty"),
    ],
)
def test_empty_and_duplicated_prompts(
    tmp_path: Path, prompts: list[dict[str, object]], answers: list[dict[str, object]], message: str
) -> None:
    source = write_zeroeval(tmp_path / "source", prompts, answers)
    with pytest.raises(DatasetError, match=message):
        build(zeroeval(source), tmp_path / "grid")


def test_one_prompt_and_one_model_are_a_grid(tmp_path: Path) -> None:
    source = write_zeroeval(tmp_path / "source", GOOD_PROMPTS[:1], GOOD_ANSWERS[:1])
    build(zeroeval(source), tmp_path / "grid")
    summary = summarise(open_view(tmp_path / "grid"))
    assert (summary.prompts, summary.oracle, summary.best_model) == (1, 1.0, "x")
    assert inspect_grid(tmp_path / "grid").faults == ()


def test_the_same_text_under_two_ids_is_one_prompt(tmp_path: Path) -> None:
    prompts = [zeroeval_prompt("a", "same"), zeroeval_prompt("b", "same"), zeroeval_prompt("c")]
    answers = [zeroeval_answer("b", "x", 1), zeroeval_answer("c", "x", 1), zeroeval_answer("a", "x", 0)]
    built = build(zeroeval(write_zeroeval(tmp_path / "source", prompts, answers)), tmp_path / "grid")
    assert built.manifest.counts.duplicate_prompts == 1
    view = open_view(tmp_path / "grid")
    assert view.prompts == ("same", "question c")
    assert view.score.tolist() == [[0.0], [1.0]]  # the first prompt's own answer, not the second's


def test_a_truncated_gzip_says_so(tmp_path: Path) -> None:
    source = two_by_two(tmp_path / "source")
    whole = (source / "grid.jsonl.gz").read_bytes()
    (source / "grid.jsonl.gz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DatasetError, match=r"grid\.jsonl\.gz: truncated or damaged gzip"):
        build(zeroeval(source), tmp_path / "grid")


def test_bad_json_is_named_by_row(tmp_path: Path) -> None:
    source = two_by_two(tmp_path / "source")
    text = gzip.decompress((source / "grid.jsonl.gz").read_bytes()) + b"{\n"
    (source / "grid.jsonl.gz").write_bytes(gzip.compress(text))
    with pytest.raises(DatasetError, match=r"grid\.jsonl\.gz, row 5: not valid JSON"):
        build(zeroeval(source), tmp_path / "grid")
    write_jsonl(source / "grid.jsonl.gz", [])
    (source / "grid.jsonl.gz").write_bytes(gzip.compress(b"[1]\n"))
    with pytest.raises(DatasetError, match="row 1: expected a JSON object, found list"):
        build(zeroeval(source), tmp_path / "grid")


def test_a_selection_of_models(tmp_path: Path) -> None:
    source = zeroeval(two_by_two(tmp_path / "source"))
    build(source | {"models": ["m-14B"]}, tmp_path / "grid")
    assert open_view(tmp_path / "grid").models == ("m-14B",)
    with pytest.raises(DatasetError, match=r"no answers of gone; it has m-14B, m-7B"):
        build(source | {"models": ["gone"]}, tmp_path / "other")


@pytest.mark.shared
def test_the_real_grid_has_the_published_means(tmp_path: Path, shared_data: Path) -> None:
    spec = load_spec(SPECS / "zeroeval-qwen25.yaml", [f"source.path={shared_data / 'zeroeval_qwen25'}"])
    source = spec.value.model_dump(mode="json")["source"]
    assert loaded(source).value.source == spec.value.source
    build(source, tmp_path / "grid", name="zeroeval-qwen25")
    summary = summarise(open_view(tmp_path / "grid"))
    assert [round(model.mean or 0, 3) for model in summary.models] == [0.295, 0.521, 0.650, 0.674]
    assert [round(model.length_mean or 0) for model in summary.models] == [569, 431, 335, 338]
    assert round(summary.oracle or 0, 3) == 0.799
    assert round(summary.same_share or 0, 2) == 0.42
    assert (summary.prompts, summary.n_complete) == (1521, 1521)
    inspection = inspect_grid(tmp_path / "grid")
    assert (inspection.faults, inspection.warnings) == ((), ())
    assert len(inspection.census.labels) == 4
