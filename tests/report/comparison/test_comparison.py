"""Two sweeps side by side: paired where they may be, refused where not, and nothing passed over."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rbx.cli.main import run
from rbx.errors import StoreError
from rbx.report.comparison.files import warnings, write_comparison
from rbx.report.comparison.study import Comparison, compare
from rbx.report.comparison.tables import _gap, overview_table
from rbx.report.load import read_sweep
from rbx.report.paired import Resampling
from rbx.report.point import to_points
from tests.report.browser import Parsed, rendered
from tests.report.sweeps import POLICIES, SweepShape, write_sweep

QUICK = Resampling(n_resamples=200)
SHAPE = SweepShape(policies=POLICIES[5:8], rates_per_s=(6.0, 12.0), n_prompts=30, n_requests=40)


def _slower(columns: dict[str, Any], summary: dict[str, Any]) -> None:
    columns["done_s"] = columns["done_s"] + 0.5


def _changed(folder: Path, change: dict[str, Any]) -> Path:
    """The sweep with some keys of its manifest changed."""
    path = folder / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    return folder


def _compared(tmp_path: Path, a: SweepShape, b: SweepShape) -> Comparison:
    return compare(write_sweep(tmp_path / "a", a), write_sweep(tmp_path / "b", b), QUICK)


def test_a_shift_of_every_request_is_found_and_nothing_else(tmp_path: Path) -> None:
    """Half a second on every answer of one cell: paired, the interval has no width; others are equal."""
    found = _compared(tmp_path, SHAPE, replace(SHAPE, tamper={1: _slower}))
    label = SHAPE.policies[1].label
    assert len(found.matched.couples) == 6
    for gap in found.gaps:
        if gap.metric.name == "mean_e2e_s" and gap.couple.a.key[1:3] == (label, 6.0):
            assert gap.gap.value == pytest.approx(0.5)
            assert gap.gap.high - gap.gap.low < 1e-9
            assert gap.b - gap.a == pytest.approx(0.5)
        elif gap.metric.name in ("quality", "cost_per_request_usd", "mean_ttft_s"):
            assert gap.gap.value == 0.0
            assert gap.gap.status == "degenerate"
    assert found.settings == ()
    assert (found.matched.only_a, found.matched.only_b) == ((), ())


def test_better_and_worse_go_by_the_sense_of_each_metric(tmp_path: Path) -> None:
    """B answers later, and better, for more money, at every point; nothing else moves."""

    def other(columns: dict[str, Any], summary: dict[str, Any]) -> None:
        more = np.random.default_rng(0).random(len(columns["done_s"]))
        columns["done_s"] = columns["done_s"] + 1.0 + more
        columns["cost_usd"] = columns["cost_usd"] * (2.0 + more)
        columns["quality"] = 0.5 * columns["quality"] + 0.5 - 0.01 * more

    found = _compared(tmp_path, SHAPE, replace(SHAPE, tamper=dict.fromkeys(range(6), other)))
    rows = {row[0].text: [value.text for value in row[1:5]] for row in overview_table(found).rows}
    assert rows["quality"] == ["6", "6", "0", "0"]
    for worse in ("mean E2E, s", "p99 E2E, s", "cost per request, $ / 1,000"):
        assert rows[worse] == ["6", "0", "6", "0"], worse
    assert rows["mean TTFT, s"] == ["6", "0", "0", "6"]
    tones = {
        (gap.metric.name, _gap(gap).tone)
        for gap in found.gaps
        if gap.metric.name in ("quality", "mean_e2e_s", "cost_per_request_usd", "mean_ttft_s")
    }
    assert tones == {
        ("quality", "good"),
        ("mean_e2e_s", "bad"),
        ("cost_per_request_usd", "bad"),
        ("mean_ttft_s", ""),
    }


def test_figures_are_those_of_each_sweeps_own_report(tmp_path: Path) -> None:
    found = _compared(tmp_path, SHAPE, replace(SHAPE, tamper={1: _slower}))
    own = {(p.label, p.rate_per_s): p.metrics for p in to_points(read_sweep(tmp_path / "b").cells)}
    seen = 0
    for gap in found.gaps:
        metrics = own[gap.couple.b.key[1:3]]
        expected = {"mean_e2e_s": metrics.e2e_s.mean, "p99_ttft_s": metrics.ttft_s.p99}.get(gap.metric.name)
        if expected is not None:
            assert gap.b == pytest.approx(expected)
            seen += 1
    assert seen == 12


def test_cells_of_one_sweep_alone_are_listed(tmp_path: Path) -> None:
    """Another policy, another rate, another seed: what is in both is compared."""
    b = replace(SHAPE, policies=POLICIES[6:9], rates_per_s=(12.0, 18.0), seeds=(0, 1))
    found = _compared(tmp_path, SHAPE, b)
    labels = [policy.label for policy in POLICIES[5:9]]
    assert [couple.a.key for couple in found.matched.couples] == [
        ("A", label, 12.0, (0,)) for label in labels[1:3]
    ]
    assert [couple.b.key[3] for couple in found.matched.couples] == [(0,), (0,)]
    assert len(found.matched.only_a) == 3 + 1
    assert f"{labels[0]} at 12 req/s, seed 0" in found.matched.only_a
    # All of 18 req/s, the policy that A lacks at 12, and seed 1 of those that it has.
    assert len(found.matched.only_b) == 6 + 2 + 2
    assert f"{labels[1]} at 12 req/s, seed 1" in found.matched.only_b


def test_other_workloads_are_refused_with_both_hashes_and_what_differs(tmp_path: Path) -> None:
    a, b = write_sweep(tmp_path / "a", SHAPE), write_sweep(tmp_path / "b", replace(SHAPE, n_requests=41))
    manifest = json.loads((b / "manifest.json").read_text())
    for cell in manifest["cells"]:
        cell["workload_hash"] = f"other{cell['workload_hash'][5:]}"
    manifest["config"]["workload"]["n_requests"] = 41
    (b / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(StoreError) as refused:
        compare(a, b, QUICK)
    words = str(refused.value)
    hashes = [json.loads((f / "manifest.json").read_text())["cells"][0]["workload_hash"] for f in (a, b)]
    assert f"workload {hashes[0]} in A, {hashes[1]} in B: 40 requests in A, 41 in B" in words
    assert "and 1 more" in words
    assert "config.workload.n_requests: none in A, 41 in B" in words
    assert not (a / "compare").exists()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"n_prompts": 31}, "other prompts"),
        ({"seeds": (1,)}, "seeds 0 in A, 1 in B"),
    ],
)
def test_prompts_and_seeds_are_named(tmp_path: Path, change: dict[str, Any], words: str) -> None:
    with pytest.raises(StoreError, match=words):
        _compared(tmp_path, SHAPE, replace(SHAPE, **change))


def test_the_same_load_at_another_rate_is_no_workload_in_common(tmp_path: Path) -> None:
    a, b = write_sweep(tmp_path / "a", SHAPE), write_sweep(tmp_path / "b", replace(SHAPE, rates_per_s=(8.0,)))
    manifest = json.loads((b / "manifest.json").read_text())
    for cell in manifest["cells"]:
        cell["load"] = 0.3
    _changed(b, {"cells": manifest["cells"]})
    with pytest.raises(StoreError, match=r"load 0.3 is 6 req/s in A and 8 in B: the capacities differ"):
        compare(a, b, QUICK)


def test_sweeps_with_nothing_in_common_are_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="share no policy at the same rate or load"):
        _compared(tmp_path, SHAPE, replace(SHAPE, policies=POLICIES[:1]))


def test_what_else_differs_is_stated(tmp_path: Path) -> None:
    a = write_sweep(tmp_path / "a", SHAPE)
    b = write_sweep(tmp_path / "b", replace(SHAPE, pool="other"))
    manifest = json.loads((b / "manifest.json").read_text())
    manifest["versions"]["rbx"] = "9.9"
    manifest["bundle"]["digest"] = "ee" * 32
    manifest["config"]["scheduler"] = {"order": "fifo"}
    manifest["cells"][0]["policy"]["batched"] = False
    _changed(b, manifest)
    found = compare(a, b, QUICK)
    told = {each.key: (each.a, each.b) for each in found.settings}
    assert told == {
        "bundle.digest": ("cd" * 32, "ee" * 32),
        "pool.name": ("example", "other"),
        "versions.rbx": ("0.1.0", "9.9"),
        "config.scheduler.order": ("", "fifo"),
    }
    assert [couple.other_policy for couple in found.matched.couples] == [True] + 5 * [False]


def test_what_served_either_is_told_apart_where_it_differs(tmp_path: Path) -> None:
    found = _compared(tmp_path, SHAPE, replace(SHAPE, synthetic=False))
    told = "The two were not served alike. A: SYNTHETIC GRID · SIMULATED ENGINE. B: SIMULATED ENGINE."
    assert list(warnings(found)) == [told]
    assert told in write_comparison(found, tmp_path / "out").page.read_text(encoding="utf-8")
    assert list(warnings(compare(tmp_path / "a", tmp_path / "a", QUICK))) == []


def _all_failed(columns: dict[str, Any], summary: dict[str, Any]) -> None:
    n = len(columns["status"])
    columns["status"] = np.full(n, "error")
    for name in ("first_token_s", "done_s", "quality"):
        columns[name] = np.full(n, np.nan)
    columns["quality_status"] = np.full(n, "missing")
    columns["cost_usd"] = np.zeros(n)
    columns["slo_met"] = np.zeros(n, dtype=bool)
    summary |= {"ok": 0, "error": n}


def test_sweeps_of_which_nothing_is_known_still_have_a_page(tmp_path: Path) -> None:
    """One request, and it failed: no metric has a value."""
    shape = replace(SHAPE, policies=POLICIES[6:7], rates_per_s=(6.0,), n_requests=1, tamper={0: _all_failed})
    found = _compared(tmp_path, shape, shape)
    assert [gap.metric.name for gap in found.gaps] == ["completed_share", "slo_met_share"]
    written = write_comparison(found, tmp_path / "out")
    assert written.summary["differences"][0]["a"] == 0.0


def test_the_files_speak_of_every_point_and_escape_what_they_show(tmp_path: Path) -> None:
    evil = "always:<script>alert('x')</script>$_{{ 7*7 }}"
    a, b = (write_sweep(tmp_path / name, SHAPE) for name in "ab")
    for path in (a / "manifest.json", b / "manifest.json"):
        path.write_text(path.read_text().replace('"passthrough/round-robin"', json.dumps(evil)))
    written = write_comparison(compare(a, b, QUICK), tmp_path / "out")
    page = written.page.read_text(encoding="utf-8")
    parsed = Parsed(page)
    parsed.assert_self_contained()
    assert page.count("<script>") == 1
    assert evil in "".join(parsed.text)
    assert "SYNTHETIC GRID · SIMULATED ENGINE" in page
    rows = list(csv.DictReader(io.StringIO((tmp_path / "out" / "differences.csv").read_text())))
    assert len({(row["policy"], row["rate_per_s"]) for row in rows}) == 6
    assert json.loads((tmp_path / "out" / "summary.json").read_text()) == written.summary
    tex = (tmp_path / "out" / "tables" / "rate-1.tex").read_text()
    assert r"\textless{}script\textgreater{}" in tex
    assert r"\$\_\{\{ 7*7 \}\}" in tex
    dom = rendered(written.page, tmp_path)
    assert dom.count('<table class="sortable">') == 1 + 2


def test_the_command_writes_beside_a_and_says_where(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a, b = write_sweep(tmp_path / "a", SHAPE), write_sweep(tmp_path / "b", SHAPE)
    assert run(["report", "--compare", str(a), str(b), "--resamples", "100"]) == 0
    out = capsys.readouterr().out
    assert "6 points (3 policies at 2 rates) are in both" in " ".join(out.split())
    assert out.rstrip().endswith(str(a / "compare" / "b" / "index.html"))
    assert run(["report", "--compare", str(a), str(b), "--resamples", "100", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["only_a"] == []
    assert run(["report", str(a), "--compare", str(a), str(b)]) == 2
    assert run(["report", "--compare", str(a), str(b), "--strict"]) == 2
