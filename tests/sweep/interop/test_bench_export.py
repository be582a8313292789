"""A cell in vLLM's names says of every request what the cell says, and comes back the same."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from rbx.errors import StoreError, UsageError
from rbx.report.load import read_sweep
from rbx.report.metrics import measure
from rbx.sweep.interop.bench_export import cell_of, export_cell
from rbx.sweep.interop.bench_file import read_bench_file
from rbx.sweep.interop.bench_import import import_results
from rbx.sweep.store import SweepStore
from tests.report.sweeps import SweepShape, write_sweep
from tests.sweep.compare.live_scenes import Scene, play, write_store


@pytest.fixture(scope="module")
def scene() -> Scene:
    return play(n_requests=120, rate_per_s=15.0)


def test_every_request_stands_in_the_file_with_its_own_times(scene: Scene, tmp_path: Path) -> None:
    store = SweepStore(write_store(tmp_path / "live", [scene]))
    content = export_cell(store, scene.spec, tmp_path / "cell.json")
    assert json.loads((tmp_path / "cell.json").read_text()) == content
    outcome, sent_s = scene.outcome, scene.arriving.scheduled_s
    np.testing.assert_allclose(content["ttfts"], outcome.first_token_s - sent_s)
    np.testing.assert_allclose(content["latencies"], outcome.done_s - sent_s)
    assert content["output_lens"] == outcome.output_tokens.tolist()
    assert [len(gaps) + 1 for gaps in content["itls"]] == content["output_lens"]
    assert content["completed"] == content["num_prompts"] == 120
    assert content["duration"] == pytest.approx(outcome.done_s.max() - sent_s.min())
    assert content["rbx_simulated"] is False


def test_an_exported_cell_comes_back_with_the_same_figures(scene: Scene, tmp_path: Path) -> None:
    store = SweepStore(write_store(tmp_path / "live", [scene]))
    export_cell(store, scene.spec, tmp_path / "cell.json")
    (result,) = read_bench_file(tmp_path / "cell.json")
    import_results([("cell.json", result)], tmp_path / "back")
    ours, theirs = (measure(read_sweep(folder).cells) for folder in (tmp_path / "live", tmp_path / "back"))
    for name in ("ttft_from_sent_s", "tpot_s", "e2e_s"):
        mine, back = getattr(ours, name), getattr(theirs, name)
        assert back.n == mine.n > 100
        assert (back.mean, back.p99) == pytest.approx((mine.mean, mine.p99))
    assert theirs.counts.ok == ours.counts.ok


def test_a_simulated_cell_has_no_gaps_between_chunks_and_failed_requests_say_why(tmp_path: Path) -> None:
    folder = write_sweep(tmp_path / "sim", SweepShape(n_requests=60, n_prompts=60, failures=0.2))
    store = SweepStore(folder)
    spec = read_sweep(folder).cells[0].spec
    content = export_cell(store, spec, tmp_path / "cell.json")
    assert content["failed"] > 0
    assert sum(error == "error" for error in content["errors"]) == content["failed"]
    assert not any(content["itls"])
    assert "mean_itl_ms" not in content
    assert content["mean_tpot_ms"] > 0
    assert content["rbx_simulated"] is True
    assert content["request_goodput"] > 0
    failed = np.array([bool(error) for error in content["errors"]])
    assert np.array(content["output_lens"])[failed].sum() == 0


def test_a_cell_is_named_by_how_its_id_begins(tmp_path: Path) -> None:
    folder = write_sweep(tmp_path / "sim", SweepShape(n_requests=30, n_prompts=30, skip=frozenset({1})))
    store = SweepStore(folder)
    ids = [cell["cell_id"] for cell in store.read_manifest()["cells"]]
    assert cell_of(store, ids[0][:12]).cell_id == ids[0]
    with pytest.raises(UsageError, match="no cell of id"):
        cell_of(store, "zz")
    with pytest.raises(UsageError, match="several cells"):
        cell_of(store, "")
    with pytest.raises(StoreError, match="not finished"):
        export_cell(store, cell_of(store, ids[1]), tmp_path / "cell.json")
