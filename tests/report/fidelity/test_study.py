"""What a validation tells of a run whose truth is known."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from rbx.errors import StoreError, UsageError
from rbx.report.fidelity.errors import ErrorRow
from rbx.report.fidelity.files import markdown, write_fidelity
from rbx.report.fidelity.study import CALIBRATED, FITTED, HELD_OUT, PLANNED, POOL, Fidelity, study
from rbx.report.fidelity.timing import METRICS
from rbx.report.fidelity.words import warnings
from rbx.report.load import Sweep, read_sweep
from rbx.sweep.compare.servers import scaled_servers
from rbx.sweep.context import SweepContext
from tests.report.fidelity.conftest import FASTER, QUICK
from tests.report.sweeps import SweepShape, write_sweep
from tests.sweep.compare.live_scenes import Scene, play, write_store
from tests.sweep.scenes import small_pool


def row(found: Fidelity, source: str, population: str, metric: str) -> ErrorRow:
    (only,) = (
        each
        for each in found.errors
        if (each.source, each.population, each.metric) == (source, population, metric)
        and each.rate_per_s is None
        and each.tier is None
    )
    return only


def test_the_true_step_times_replay_the_run_without_any_error(
    live_scenes: tuple[Scene, ...], live_sweep: Sweep
) -> None:
    found = study(live_sweep, replace(QUICK, time_scale=FASTER))
    assert len(found.errors) > 20
    for metric in METRICS:
        exact = row(found, POOL, "all", metric)
        assert exact.n > 0.9 * sum(scene.spec.n_requests for scene in live_scenes)
        assert exact.mean_error.value == pytest.approx(0.0, abs=1e-12)
        assert exact.mape.value == pytest.approx(0.0, abs=1e-12)
    for each in found.throughput:
        if each.source == POOL:
            assert each.window_error == each.tokens_error == 0.0


def test_a_pool_file_that_is_too_slow_is_told_and_the_fit_mends_it(without_policies: Fidelity) -> None:
    found = without_policies
    tpot = row(found, POOL, HELD_OUT, "tpot")
    assert tpot.mean_error.value == pytest.approx(FASTER - 1.0, abs=0.03)
    assert tpot.mean_error.low > 0.15
    for metric in METRICS:
        mended = row(found, FITTED, HELD_OUT, metric)
        assert mended.n == row(found, POOL, HELD_OUT, metric).n
        assert abs(mended.mean_error.value) < 0.02
        assert mended.mape.value < 0.1 * max(row(found, POOL, HELD_OUT, metric).mape.value, 0.5)
    assert {each.tier for each in found.fits} == {"small_gpu", "large_gpu"}
    assert all(abs(seconds) < 0.003 for seconds in found.outside_s.values())


def test_held_out_and_whole_bands_add_up(without_policies: Fidelity) -> None:
    found = without_policies
    for population, source in (("all", POOL), (HELD_OUT, POOL), (HELD_OUT, FITTED)):
        e2e = [r for r in found.errors if (r.population, r.source, r.metric) == (population, source, "e2e")]
        whole = row(found, source, population, "e2e").n
        by_rate = [r.n for r in e2e if r.rate_per_s is not None and r.tier is None]
        by_tier = [r.n for r in e2e if r.rate_per_s is None and r.tier is not None]
        both = [r.n for r in e2e if r.rate_per_s is not None and r.tier is not None]
        assert sum(by_rate) == sum(by_tier) == sum(both) == whole > 0
    assert row(found, POOL, "all", "e2e").n > row(found, POOL, HELD_OUT, "e2e").n


def test_policies_are_run_again_with_what_the_run_has_told(
    live_sweep: Sweep, live_scenes: tuple[Scene, ...], context: SweepContext
) -> None:
    found = study(live_sweep, QUICK)
    assert found.no_policies == ""
    assert found.lengths_seen > 0.9
    assert {(r.source, r.rate_per_s) for r in found.orders} == {
        (source, rate) for source in (PLANNED, CALIBRATED) for rate in (8.0, 16.0)
    }
    for mix in found.mixes:
        assert sum(mix.live.values()) == pytest.approx(1.0)
        if "round-robin" in mix.label:  # which never looks at the servers
            assert mix.moved == 0.0
    latency = [r for r in found.orders if r.metric == "e2e_s" and r.source == CALIBRATED]
    assert [r.tau.value for r in latency] == [1.0, 1.0]
    for r in latency:
        for (name, live), (same, simulated) in zip(r.live, r.simulated, strict=True):
            assert name == same
            assert simulated == pytest.approx(live, rel=0.1)


def test_without_the_bundle_decisions_are_replayed_all_the_same(without_policies: Fidelity) -> None:
    assert "no such file" in without_policies.no_policies
    assert not without_policies.orders
    assert not without_policies.mixes
    assert without_policies.errors


def test_failed_and_retried_requests_are_a_load_and_are_judged_by_nothing(
    live_scenes: tuple[Scene, ...], tmp_path: Path
) -> None:
    scene = live_scenes[0]
    rows = scene.records.to_pylist()
    rows[10] |= {"status": "error", "first_token_s": None, "done_s": None, "output_tokens": None}
    rows[11] |= {"attempt": 2}
    rows[12] |= {"instance": None}
    records = scene.records.from_pylist(rows, schema=scene.records.schema)
    folder = write_store(tmp_path / "live", [replace(scene, records=records), live_scenes[1]])
    found = study(read_sweep(folder), QUICK)
    n = 2 * scene.spec.n_requests
    counts = found.populations
    assert (counts.scheduled, counts.replayed, counts.as_load, counts.retried, counts.unplaced) == (
        n, n - 1, 1, 1, 1,
    )  # fmt: skip
    assert row(found, POOL, "all", "e2e").n == n - 3


def test_files_hold_every_request_and_figure_without_nan(
    without_policies: Fidelity, live_folder: Path
) -> None:
    page = write_fidelity(without_policies)
    table = pq.read_table(live_folder / "validate" / "requests.parquet")
    n = without_policies.populations.scheduled
    assert table.num_rows == 2 * n
    pool = table.filter(np.array(table["step_times"].to_pylist()) == POOL)
    ratio = pool["replayed_tpot_s"].to_numpy() / pool["live_tpot_s"].to_numpy()
    assert np.nanmedian(ratio) == pytest.approx(FASTER, abs=0.03)
    content = json.loads((live_folder / "validate" / "summary.json").read_text())
    assert len(content["errors"]) == len(without_policies.errors)
    assert content["blocks"]["held_out"] > 1
    text = page.read_text()
    assert text == markdown(without_policies)
    assert text.startswith("# live: the simulator beside live servers\n")
    for name in ("Decisions replayed, by rate", "Decisions replayed, by tier", "Step times", "Throughput"):
        assert f"## {name}" in text


def test_a_simulated_sweep_and_an_unknown_time_scale_are_refused(
    live_scenes: tuple[Scene, ...], live_sweep: Sweep, tmp_path: Path
) -> None:
    simulated = read_sweep(write_sweep(tmp_path / "sim", SweepShape(n_requests=30, n_prompts=30)))
    with pytest.raises(StoreError, match="not a live sweep"):
        study(simulated, QUICK)
    with pytest.raises(UsageError, match="time-scale"):
        study(live_sweep, replace(QUICK, time_scale=0.0))


def test_mock_servers_are_told_and_their_time_scale_is_taken_from_the_cells(tmp_path: Path) -> None:
    servers = scaled_servers(small_pool(), 10.0)
    scene = play(servers, rate_per_s=100.0, n_requests=200)
    found = study(read_sweep(write_store(tmp_path / "live", [scene], time_scale=10.0)), QUICK)
    assert found.simulated
    assert found.time_scale == 10.0
    assert row(found, POOL, "all", "e2e").mape.value == pytest.approx(0.0, abs=1e-9)
    assert "(SIMULATED ENGINE)" in markdown(found)


def test_what_the_sweep_warned_of_stands_beside_what_the_simulator_missed(without_policies: Fidelity) -> None:
    late = "tokens of the mock servers came up to 40 ms late"
    first, *others = without_policies.sweep.cells
    assert first.summary.live is not None
    live = replace(first.summary.live, warnings=(late,))
    warned = replace(first, summary=replace(first.summary, live=live))
    sweep = replace(without_policies.sweep, cells=(warned, *others))
    (line,) = [each for each in warnings(replace(without_policies, sweep=sweep)) if late in each]
    assert line.startswith(f"1 of {len(sweep.cells)} cells carry warnings of the sweep. {first.spec.cell_id}")
    assert not any("carry warnings" in each for each in warnings(without_policies))
