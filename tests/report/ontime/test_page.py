"""The on-time part as a reader meets it: page, terminal, CSV, JSON, figures; and sweeps without it."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from rbx.cli.main import run
from rbx.config.policy import BearPolicy, RoutedPolicy
from rbx.config.references import REFERENCES
from rbx.report.analysis import analyse
from rbx.report.load import read_sweep
from rbx.report.ontime.published import CELLS
from rbx.report.ontime.words import on_time_answer
from rbx.report.paired import Resampling
from rbx.report.run import Report, write_report
from tests.report.ontime.handmade import Served, write_handmade
from tests.report.sweeps import ON_TIME_POLICIES, POLICIES, Policy, SweepShape, write_sweep

QUICK = Resampling(n_resamples=200)
BEAR = BearPolicy()
QUEUE = RoutedPolicy(router="passthrough", dispatch="shortest-queue")
Cells = dict[tuple[float, Policy], list[Served]]
EVIL = "<img src=x onerror=alert(1)>"
ALL_TABLES = (
    "What BEAR gains on average",
    "OnTimeUtility",
    "Attainment",
    "BEAR against each policy",
    "Where BEAR loses",
    "Predicted and measured TTFT",
    "Predictions and what was sent later",
    "Predictions by regime",
    "Predicted and met targets",
)


def _captions(page: str) -> list[str]:
    return re.findall(r"<figcaption><h3>(.*?)</h3>", page)


@pytest.fixture(scope="module")
def report(timed_folder: Path) -> Report:
    return write_report(timed_folder, resampling=QUICK)


def test_the_page_holds_every_on_time_table_and_figure_with_its_stamp(report: Report) -> None:
    page = report.page.read_text(encoding="utf-8")
    captions = _captions(page)
    assert [name for name in captions if name in ALL_TABLES] == list(ALL_TABLES)
    assert captions.count("On time") == 3  # one a rate
    assert 'href="#on-time"' in page
    assert '<section id="on-time">' in page
    tables = re.findall(r'<figure class="table">.*?</figcaption>', page, flags=re.DOTALL)
    assert all("SYNTHETIC GRID · SIMULATED ENGINE" in table for table in tables)
    for name in ("on-time", "predicted-ttft"):
        svg = (report.page.parent / "figures" / f"{name}.svg").read_text(encoding="utf-8")
        assert "SYNTHETIC GRID · SIMULATED ENGINE" in svg
        assert "scheduled requests" in svg
        assert f'id="figure-{name}"' in page
    assert "blocks of 4 consecutive requests" in page
    assert page.index("On time: BEAR against the others") < page.index("RouteBalance against")


def test_csv_json_and_cells_agree_with_the_analysis(report: Report) -> None:
    out = report.page.parent
    study = report.analysis.on_time
    assert study is not None
    assert study.comparison is not None
    with (out / "on_time.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    summary = json.loads((out / "summary.json").read_text())["on_time"]
    assert len(rows) == len(summary["points"]) == len(study.results) == 18
    ratios = {(each.label, each.rate_per_s): each.ratio for each in study.comparison.rivalries}
    for row, point, result in zip(rows, summary["points"], study.results, strict=True):
        assert row["label"] == point["label"] == result.point.label
        assert float(row["on_time_utility"]) == point["metrics"]["on_time_utility"]
        interval = result.over_time["attainment"]
        assert float(row["attainment_low_over_time"]) == interval.low
        assert point["over_time"]["attainment"]["low"] == interval.low
        assert float(row["attainment_high_over_prompts"]) == result.over_prompts["attainment"].high
        ratio = ratios.get((result.point.label, result.point.rate_per_s))
        assert row["bear_gain_value"] == ("" if ratio is None else str(ratio.value))
        assert (row["infeasible_share"] == "") == (point["metrics"]["infeasible_share"] is None)
    assert {row["part"] for row in rows} == {"BEAR", "variant", "baseline", "latency-aware baseline"}
    bear = summary["bear"]
    assert bear["over_best_baseline"]["gain"]["value"] == study.comparison.over_best.gain.value
    assert len(bear["rivalries"]) == 15
    assert summary["published"] is None
    cells = pq.read_table(out / "cells.parquet")
    assert cells.num_rows == 36
    early = sum(result.metrics.on_time for result in study.results)
    assert sum(cells["on_time"].to_pylist()) == early > 0
    assert cells["on_time_utility"].null_count == 0


def test_published_figures_stand_beside_the_qwen3_pool_alone(report: Report, tmp_path: Path) -> None:
    assert "ublished" not in report.page.read_text(encoding="utf-8")
    shape = SweepShape(
        policies=ON_TIME_POLICIES[:4],
        rates_per_s=(3.0, 6.0),
        n_prompts=30,
        n_requests=30,
        ttft_target=True,
        pool="qwen3-h100",
    )
    written = write_report(write_sweep(tmp_path / "s", shape), resampling=QUICK)
    page = written.page.read_text(encoding="utf-8")
    for words in ("+63.0 %", "+30.5 %", "+33.0 %", "0.498", "92.1 %", "real vLLM on H100s", "0.1 ms"):
        assert words in page
    assert "Published single cells (Qwen3 on H100s)" in _captions(page)
    published = json.loads((written.page.parent / "summary.json").read_text())["on_time"]["published"]
    assert (published["over_latency_aware_routers"], published["over_best_baseline"]) == (0.63, 0.305)
    assert len(published["cells"]) == len(CELLS) == 7


def test_a_sweep_without_ttft_targets_has_no_such_part(tmp_path: Path) -> None:
    shape = SweepShape(policies=POLICIES[3:7], rates_per_s=(6.0, 12.0), n_prompts=20, n_requests=20)
    written = write_report(write_sweep(tmp_path / "s", shape), resampling=QUICK)
    out = written.page.parent
    page = written.page.read_text(encoding="utf-8")
    assert written.analysis.on_time is None
    assert "on-time" not in page
    assert "OnTimeUtility" not in page
    assert "on_time" not in json.loads((out / "summary.json").read_text())
    assert not (out / "on_time.csv").exists()
    assert not (out / "figures" / "on-time.svg").exists()
    assert not any(name.startswith("on_time") for name in pq.read_table(out / "cells.parquet").column_names)


def test_the_terminal_answers_first_and_ranks_each_rate(
    timed_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["report", str(timed_folder), "--resamples", "200"]) == 0
    printed = capsys.readouterr().out
    assert "On time · SYNTHETIC GRID · SIMULATED ENGINE" in printed
    out = re.sub(r"\s+", " ", printed)
    assert out.index("On time: BEAR against the others") < out.index("RouteBalance against")
    assert "At λ = 6 req/s BEAR keeps 95.5 % in time" in out
    assert "Mean gain of BEAR in OnTimeUtility: over the best baseline of each rate" in out
    assert "BEAR's TTFT predictions, over the rates: MAPE" in out


def test_the_baselines_counted_at_a_rate_are_those_that_were_run_there(tmp_path: Path) -> None:
    shape = SweepShape(
        policies=ON_TIME_POLICIES,
        rates_per_s=(3.0, 6.0),
        n_prompts=20,
        n_requests=20,
        ttft_target=True,
        skip=frozenset({9}),  # round robin at the second rate
    )
    study = analyse(read_sweep(write_sweep(tmp_path / "s", shape)), baseline=None, resampling=QUICK).on_time
    (told,) = on_time_answer(study)
    assert told.lines[0].startswith("At λ = 6 req/s BEAR keeps ")
    assert "the best of 3 baselines there" in told.lines[0]


def test_losses_are_said_plainly(tmp_path: Path) -> None:
    """BEAR is late with every other request, the shortest queue with none."""
    slow = [Served(ttft_s=0.1 + 0.2 * (index % 2), quality=0.9, cost_usd=0.0) for index in range(60)]
    fast = [Served(ttft_s=0.1, quality=0.8 - 0.001 * index, cost_usd=0.0) for index in range(60)]
    cells: Cells = {(1.0, BEAR): slow, (1.0, QUEUE): fast, (2.0, BEAR): fast, (2.0, QUEUE): slow}
    written = write_report(write_handmade(tmp_path / "s", cells), resampling=QUICK)
    page = written.page.read_text(encoding="utf-8")
    said = "BEAR loses surely in 1 of 2 pairs (policy, rate), 1 of them baselines: "
    assert said + "passthrough/shortest-queue (λ = 1). By the estimate alone it is behind in none." in page
    table = page[page.index("<h3>Where BEAR loses</h3>") :]
    assert "In 1 of 2 pairs" in table[:600]


def test_a_loss_that_is_not_sure_is_named_too(tmp_path: Path) -> None:
    """BEAR is late in one long stretch, as a run above capacity is: behind, and by far, but not surely."""
    late = [Served(ttft_s=0.1 + 0.2 * (index >= 30), quality=0.9, cost_usd=0.0) for index in range(60)]
    even = [Served(ttft_s=0.1, quality=0.46, cost_usd=0.0) for _ in range(60)]
    written = write_report(
        write_handmade(tmp_path / "s", {(1.0, BEAR): late, (1.0, QUEUE): even}), resampling=QUICK
    )
    page = written.page.read_text(encoding="utf-8")
    assert (
        "BEAR loses surely in none of 1 pairs (policy, rate). By the estimate alone it is behind in 1, "
        in page
    )
    assert "1 of them baselines: passthrough/shortest-queue (λ = 1)." in page
    assert "Where BEAR loses" in page


def test_labels_are_escaped(tmp_path: Path) -> None:
    requests = [Served(predicted_s=0.1, candidates=1), Served(ttft_s=0.3, predicted_s=0.1, candidates=1)] * 4
    policies: tuple[Policy, ...] = (BEAR, BearPolicy(ttft="lps"), QUEUE)
    cells = {(rate, policy): requests for rate in (1.0, 2.0) for policy in policies}
    folder = write_handmade(tmp_path / "s", cells)
    manifest = folder / "manifest.json"
    text = manifest.read_text(encoding="utf-8")
    for label in ("hard/lps", QUEUE.label):
        assert json.dumps(label) in text
        text = text.replace(json.dumps(label), json.dumps(f"{label}{EVIL}"))
    manifest.write_text(text, encoding="utf-8")
    written = write_report(folder, resampling=QUICK)
    page = written.page.read_text(encoding="utf-8")
    assert EVIL not in page
    assert "&lt;img src=x onerror=alert(1)&gt;" in page
    assert EVIL not in (written.page.parent / "figures" / "on-time.svg").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "cells",
    [
        {(1.0, BEAR): [Served()]},
        {(1.0, BEAR): [Served(status="shed", candidates=0)] * 4, (1.0, QUEUE): [Served(quality=None)] * 4},
        {(rate, QUEUE): [Served(ttft_s=1.0)] * 5 for rate in (1.0, 2.0)},
        {(rate, p): [Served(status="error")] * 5 for rate in (1.0, 2.0) for p in (BEAR, QUEUE)},
    ],
    ids=["one-request", "all-shed", "no-bear-all-late", "all-failed"],
)
def test_meagre_sweeps_still_make_a_page(tmp_path: Path, cells: Cells) -> None:
    folder = write_handmade(tmp_path / "s", cells)
    written = write_report(folder, resampling=QUICK)
    assert written.analysis.on_time is not None
    text = re.sub(r"<[^>]*>", " ", written.page.read_text(encoding="utf-8").split("<main>")[1])
    assert not re.search(r"\bnan\b|\binf\b", text.split("Provenance")[0], flags=re.IGNORECASE)
    assert '<section id="on-time">' in written.page.read_text(encoding="utf-8")


def test_bear_and_its_rivals_may_be_at_different_rates(tmp_path: Path) -> None:
    """Eight policies, BEAR at the lower rate and the others at the upper."""
    shape = SweepShape(
        policies=(BEAR, *POLICIES[:7]),
        rates_per_s=(3.0, 6.0),
        n_prompts=20,
        n_requests=20,
        ttft_target=True,
        skip=frozenset({*range(1, 9)}),
    )
    written = write_report(write_sweep(tmp_path / "s", shape), resampling=QUICK)
    study = written.analysis.on_time
    assert study is not None
    assert study.comparison is None
    page = written.page.read_text(encoding="utf-8")
    assert "At no rate does the sweep hold BEAR" in page
    assert 'id="figure-on-time"' in page


@pytest.mark.parametrize("router", sorted(REFERENCES))
def test_a_reference_leads_nobody(tmp_path: Path, router: str) -> None:
    reference = RoutedPolicy.model_validate({"router": router, "dispatch": "shortest-queue"})
    cells: Cells = {(1.0, reference): [Served(quality=1.0)] * 8, (1.0, QUEUE): [Served(quality=0.4)] * 8}
    written = write_report(write_handmade(tmp_path / "s", cells), resampling=QUICK)
    page = written.page.read_text(encoding="utf-8")
    assert f"At λ = 1 req/s {QUEUE.label} leads" in page
    assert f"{reference.label} leads" not in page
    assert reference.label in page


@pytest.mark.parametrize("router", sorted(REFERENCES))
def test_bear_is_compared_with_no_reference(tmp_path: Path, router: str) -> None:
    reference = RoutedPolicy.model_validate({"router": router, "dispatch": "shortest-queue"})
    cells: Cells = {
        (rate, policy): [Served(quality=quality)] * 8
        for rate in (1.0, 2.0)
        for policy, quality in ((BEAR, 0.6), (reference, 1.0), (QUEUE, 0.4))
    }
    written = write_report(write_handmade(tmp_path / "s", cells), resampling=QUICK)
    study = written.analysis.on_time
    assert study is not None
    assert study.comparison is not None
    assert {each.label for each in study.comparison.rivalries} == {QUEUE.label}
    assert {each.label for each in study.comparison.best} == {QUEUE.label}
    assert {each.label for each in study.comparison.areas} == {QUEUE.label}
    assert study.comparison.lost == study.comparison.behind == ()
    rows = {row["label"]: row for row in csv.DictReader((written.page.parent / "on_time.csv").open())}
    assert (rows[reference.label]["part"], rows[reference.label]["bear_gain_value"]) == ("reference", "")
