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
from rbx.sweep.store import SweepStore
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
        ({"request_rate": 1e-320}, "request_rate"),
        ({"request_rate": 1e308}, "request_rate"),
        ({"duration": 1e-320}, "duration"),
        ({"duration": 1e8}, "duration"),
        ({"duration": 10**3000}, "duration"),
        ({"latencies": [1e308] * 40}, r"latencies\.0"),
        ({"ttfts": [1e300] * 40}, r"ttfts\.0"),
        ({"ttfts": [100.0] * 40}, r"ttfts\.0: 100 s is beyond the latency"),
        ({"queue_times": [1e300] * 40}, r"queue_times\.0"),
        ({"itls": [[], [1e308]] * 20}, r"itls\.1\.0"),
        ({"itls": [[], [9e6, 9e6]] * 20, "latencies": None}, r"itls\.1: more than"),
        ({"start_times": [1e308] * 40}, r"start_times\.0"),
        ({"start_times": [0.0, 1e8] * 20}, "start_times are more than"),
        ({"label": "a\0b"}, "label"),
        ({"label": "a\x1b[2J"}, "label"),
        ({"label": "\ud800"}, "label"),
        ({"label": "a" * 300}, "label"),
        ({"model_id": "a\nb"}, "model_id"),
        ({"date": "\udfff"}, "date"),
        ({"errors": ["\ud800"] * 40}, r"errors\.0: holds half of a surrogate pair"),
        ({"generated_texts": ["a", "b\udfff"] * 20}, r"generated_texts\.1: holds half"),
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
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        *("", "[1]", "{", '{"a": 1}\n{"b"', "[" * 200_000, '{"a":' * 200_000, '{"a": ' + "1" * 5000 + "}"),
        '{"a": 1}\n' + "[" * 200_000,
        '{"a": 1}\n' + "1" * 5000,
    ],
    ids=range(9),
)
def test_what_is_no_result_at_all_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "other.json"
    path.write_text(text)
    with pytest.raises(DatasetError, match=r"other\.json") as caught:
        read_bench_file(path)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 1000


def test_a_fault_in_a_file_over_several_lines_is_told_by_its_line(tmp_path: Path) -> None:
    path = tmp_path / "other.json"
    path.write_text('{\n"a": 1,\n"b": }')
    with pytest.raises(DatasetError, match="line 3"):
        read_bench_file(path)


def test_a_separator_within_a_text_is_no_end_of_a_line(tmp_path: Path) -> None:
    texts = ["a\u2028b\x85c"] * 40
    results = [json.dumps(drawn_result(k, generated_texts=texts), ensure_ascii=False) for k in range(2)]
    path = tmp_path / "many.json"
    path.write_text("\n".join(results), encoding="utf-8")
    assert [result.generated_texts for result in read_bench_file(path)] == [texts, texts]


@pytest.mark.parametrize(
    "starts", [[5.0] * 40, [0.0] * 39 + [1e-320], [0.0] * 39 + [1e-9]], ids=["one", "subnormal", "short"]
)
def test_a_rate_of_all_at_once_is_a_number(tmp_path: Path, starts: list[float]) -> None:
    content = drawn_result(0, request_rate="inf", start_times=starts)
    (cell,) = read_sweep(imported(tmp_path, content)).cells
    assert cell.spec.rate_per_s == pytest.approx(40 / content["duration"], rel=1e-3)


def test_a_file_may_have_any_name(tmp_path: Path) -> None:
    path = tmp_path / "a\x1b\udcff\n.json"
    path.write_text(json.dumps(drawn_result(0, model_id="")))
    results = [(str(path), result) for result in read_bench_file(path)]
    (spec,) = import_results(results, tmp_path / "theirs")
    assert spec.label == "a???"
    assert not read_sweep(tmp_path / "theirs").invalid


def test_an_import_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise StoreError("no space left")

    monkeypatch.setattr(SweepStore, "write_cell", full)
    (tmp_path / "files").mkdir()
    path = tmp_path / "files" / "a.json"
    path.write_text(json.dumps(drawn_result(0)))
    (result,) = read_bench_file(path)
    for out in ("theirs", "empty"):
        (tmp_path / "empty").mkdir(exist_ok=True)
        with pytest.raises(StoreError, match="no space"):
            import_results([("a.json", result)], tmp_path / out)
        assert sorted(each.name for each in tmp_path.iterdir()) == ["empty", "files"]
        assert not any((tmp_path / "empty").iterdir())
    monkeypatch.undo()
    import_results([("a.json", result)], tmp_path / "empty")
    assert not read_sweep(tmp_path / "empty").invalid
    for taken in (tmp_path / "files", path):
        with pytest.raises(StoreError, match="already"):
            import_results([("a.json", result)], taken)
    with pytest.raises(StoreError, match="can't be written"):
        import_results([("a.json", result)], path / "below")


def test_nothing_is_overwritten_and_nothing_taken_twice(tmp_path: Path) -> None:
    folder = imported(tmp_path, drawn_result(0))
    path = tmp_path / "result-0.json"
    (result,) = read_bench_file(path)
    with pytest.raises(StoreError, match="already"):
        import_results([("again.json", result)], folder)
    with pytest.raises(DatasetError, match="given twice"):
        import_results([("a.json", result), ("b.json", result)], tmp_path / "twice")
