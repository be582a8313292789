"""A foreign result becomes a sweep that says what it holds, and nothing that it does not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rbx.errors import DatasetError, StoreError
from rbx.report.load import read_sweep
from rbx.report.metrics import measure
from rbx.report.paired import Resampling
from rbx.report.run import write_report
from rbx.sweep.interop.bench_file import read_bench_file
from rbx.sweep.interop.bench_import import import_results
from tests.sweep.interop.bench_files import drawn_result


def imported(folder: Path, *contents: dict[str, Any]) -> Path:
    files = []
    for number, content in enumerate(contents):
        files.append(folder / f"result-{number}.json")
        files[-1].write_text(json.dumps(content))
    results = [(str(path), result) for path in files for result in read_bench_file(path)]
    import_results(results, folder / "theirs")
    return folder / "theirs"


def test_times_and_counts_are_those_of_the_file(tmp_path: Path) -> None:
    content = drawn_result(0)
    sweep = read_sweep(imported(tmp_path, content))
    assert not sweep.invalid
    (cell,) = sweep.cells
    found = measure([cell])
    assert (found.counts.scheduled, found.counts.ok, found.counts.error) == (40, 32, 8)
    ok = np.array(content["output_lens"]) > 0
    assert found.ttft_s.mean == pytest.approx(np.array(content["ttfts"])[ok].mean())
    assert found.e2e_s.p99 == pytest.approx(np.percentile(np.array(content["latencies"])[ok], 99))
    spread = [
        (latency - first) / (tokens - 1)
        for latency, first, tokens in zip(
            content["latencies"], content["ttfts"], content["output_lens"], strict=True
        )
        if tokens > 1
    ]
    assert found.tpot_s.mean == pytest.approx(np.mean(spread))
    assert cell.spec.rate_per_s == 20.0
    assert cell.spec.label == "Qwen2.5-7B"


def test_its_report_says_foreign_and_nothing_of_quality_or_cost(tmp_path: Path) -> None:
    report = write_report(imported(tmp_path, drawn_result(0)), resampling=Resampling(n_resamples=200))
    page = report.page.read_text()
    assert "FOREIGN" in page
    assert "vllm bench serve" in page
    (point,) = (result.point for result in report.analysis.results)
    assert np.isnan(point.metrics.cost_total_usd)
    assert np.isnan(point.metrics.quality_mean)
    assert np.isfinite(point.metrics.e2e_s.mean)


def test_results_of_one_label_and_rate_stand_beside_each_other_and_models_apart(tmp_path: Path) -> None:
    same = drawn_result(1)
    other = drawn_result(2, model_id="Qwen2.5-3B", request_rate="inf")
    sweep = read_sweep(imported(tmp_path, drawn_result(0), same, other))
    assert not sweep.invalid
    assert [cell.spec.seed for cell in sweep.cells] == [0, 1, 0]
    starts = np.array(other["start_times"])
    assert sweep.cells[2].spec.rate_per_s == pytest.approx(39 / np.ptp(starts), rel=1e-3)
    assert {cell.requests.model[0] for cell in sweep.cells} == {"Qwen2.5-7B", "Qwen2.5-3B"}


def test_several_results_may_stand_in_one_file_a_line_each(tmp_path: Path) -> None:
    path = tmp_path / "many.json"
    path.write_text("\n".join(json.dumps(drawn_result(seed)) for seed in range(3)))
    assert len(read_bench_file(path)) == 3


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"ttfts": None}, "no ttfts"),
        ({"ttfts": [0.1]}, "ttfts has 1 entries"),
        ({"completed": 40}, "completed is 40, but 32"),
        ({"duration": 0.0}, "duration"),
        ({"start_times": [float("nan")] * 40}, "start_times"),
        ({"input_lens": [-1] * 40}, "input_lens"),
        ({"request_rate": -3.0}, "request_rate"),
    ],
)
def test_what_is_no_detailed_result_is_refused_by_key(
    tmp_path: Path, changes: dict[str, Any], words: str
) -> None:
    path = tmp_path / "broken.json"
    content = {key: value for key, value in {**drawn_result(0), **changes}.items() if value is not None}
    path.write_text(json.dumps(content))
    with pytest.raises(DatasetError, match=words) as caught:
        read_bench_file(path)
    assert "broken.json" in str(caught.value)


@pytest.mark.parametrize("text", ["", "[1]", "{", '{"a": 1}\n{"b"'])
def test_what_is_no_result_at_all_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "other.json"
    path.write_text(text)
    with pytest.raises(DatasetError, match=r"other\.json"):
        read_bench_file(path)


def test_nothing_is_overwritten_and_nothing_taken_twice(tmp_path: Path) -> None:
    folder = imported(tmp_path, drawn_result(0))
    path = tmp_path / "result-0.json"
    (result,) = read_bench_file(path)
    with pytest.raises(StoreError, match="already"):
        import_results([("again.json", result)], folder)
    with pytest.raises(DatasetError, match="given twice"):
        import_results([("a.json", result), ("b.json", result)], tmp_path / "twice")
