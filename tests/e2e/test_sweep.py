"""``rbx sweep`` as a user runs it: the same bytes however it ran, and nothing lost when it is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq

from tests.workplace import N_CELLS, ROOT, Workplace


def finished_cells(folder: Path) -> set[Path]:
    return set((folder / "cells").glob("*.json"))


def interrupt(
    workplace: Workplace, out: str, after_cells: int, stop: Callable[[subprocess.Popen[bytes]], None]
) -> tuple[int, set[Path]]:
    """Start a sweep in its own group, stop it once some cells are there; exit code and finished cells."""
    command = workplace.command("sweep", "tiny.yaml", "--out", out, "--jobs", "2")
    process = subprocess.Popen(
        command,
        cwd=workplace.folder,
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    folder = workplace.folder / out
    deadline = time.monotonic() + 120
    while len(finished_cells(folder)) < after_cells:
        assert process.poll() is None, "the sweep ended before it could be interrupted"
        assert time.monotonic() < deadline, "no cell was finished in time"
        time.sleep(0.005)
    stop(process)
    code = process.wait(timeout=60)
    # Workers of a killed parent notice its death on their own; wait until the group is empty.
    while time.monotonic() < deadline:
        try:
            os.killpg(process.pid, 0)
        except ProcessLookupError:
            break
        time.sleep(0.05)
    return code, finished_cells(folder)


def kill_group(process: subprocess.Popen[bytes]) -> None:
    os.killpg(process.pid, signal.SIGKILL)


def test_every_cell_is_there_and_adds_up(workplace: Workplace, finished: dict[str, bytes]) -> None:
    assert len(finished) == N_CELLS
    manifest = json.loads((workplace.folder / "results/whole/manifest.json").read_text())
    assert manifest["simulated"] is True
    assert manifest["synthetic_grid"] is True
    for cell in manifest["cells"]:
        records = pq.read_table(workplace.folder / f"results/whole/cells/{cell['cell_id']}.parquet")
        summary = json.loads((workplace.folder / f"results/whole/cells/{cell['cell_id']}.json").read_text())
        assert records.num_rows == summary["scheduled"] == cell["n_requests"] == 150
        assert summary["sent"] == summary["ok"] + summary["error"]
        assert records["request"].to_pylist() == list(range(150))


def test_policies_at_one_rate_and_seed_face_the_same_workload(
    workplace: Workplace, finished: dict[str, bytes]
) -> None:
    manifest = json.loads((workplace.folder / "results/whole/manifest.json").read_text())
    faced: dict[tuple[float, int], set[tuple[object, ...]]] = {}
    for cell in manifest["cells"]:
        records = pq.read_table(workplace.folder / f"results/whole/cells/{cell['cell_id']}.parquet")
        key = (cell["rate_per_s"], cell["seed"])
        workload = (*records["prompt_id"].to_pylist(), *records["scheduled_s"].to_pylist())
        faced.setdefault(key, set()).add(workload)
    assert len(faced) == 4
    assert all(len(workloads) == 1 for workloads in faced.values())


def test_two_jobs_give_the_bytes_of_one(workplace: Workplace, finished: dict[str, bytes]) -> None:
    workplace.rbx("sweep", "tiny.yaml", "--out", "results/two-jobs", "--jobs", "2")
    assert workplace.cells("results/two-jobs") == finished


def test_killed_twice_and_resumed_gives_the_bytes_of_an_uninterrupted_run(
    workplace: Workplace, finished: dict[str, bytes]
) -> None:
    out = "results/killed"
    for after in (3, 9):
        _, kept = interrupt(workplace, out, after, kill_group)
        assert after <= len(kept) < N_CELLS
        stamps = {path: path.stat().st_mtime_ns for path in kept}
    done = workplace.rbx("sweep", "tiny.yaml", "--out", out, "--json")
    result = json.loads(done.stdout)
    assert result["resumed"] == len(kept)
    assert result["ran"] == N_CELLS - len(kept)
    assert {path: path.stat().st_mtime_ns for path in kept} == stamps
    assert workplace.cells(out) == finished
    assert list((workplace.folder / out).rglob(".*.tmp")) == []


def test_one_interrupt_drains_and_says_how_to_go_on(workplace: Workplace, finished: dict[str, bytes]) -> None:
    code, kept = interrupt(
        workplace, "results/drained", 2, lambda process: os.killpg(process.pid, signal.SIGINT)
    )
    assert code == 130
    assert 2 <= len(kept) < N_CELLS
    workplace.rbx("sweep", "tiny.yaml", "--out", "results/drained")
    assert workplace.cells("results/drained") == finished


def test_dry_run_lists_cells_and_writes_nothing(workplace: Workplace) -> None:
    done = workplace.rbx("sweep", "tiny.yaml", "--out", "results/dry", "--dry-run", "--json")
    assert len(json.loads(done.stdout)) == N_CELLS
    assert not (workplace.folder / "results/dry").exists()


def test_an_override_is_kept_with_its_source(workplace: Workplace) -> None:
    workplace.rbx(
        "sweep",
        "tiny.yaml",
        "--out",
        "results/one",
        "--set",
        "workload.seeds=[0]",
        "--set",
        "workload.rates_per_s=[8.0]",
        "--set",
        "workload.n_requests=20",
    )
    manifest = json.loads((workplace.folder / "results/one/manifest.json").read_text())
    assert manifest["config"]["workload"]["n_requests"] == 20
    assert manifest["sources"]["workload.n_requests"] == "--set"
    assert manifest["sources"]["scheduler.order"] == "default"
    assert manifest["sources"]["scheduler.decision_cost.encode_s_per_token"] == "bundle"


def test_a_sweep_may_keep_to_some_sources_of_the_grid(workplace: Workplace) -> None:
    out = "results/maths"
    changes = ["workload.sources=[synthetic/maths]", "workload.seeds=[0]", "workload.n_requests=20"]
    words = [word for change in changes for word in ("--set", change)]
    workplace.rbx("sweep", "tiny.yaml", "--out", out, *words)
    folder = workplace.folder
    prompts = pq.read_table(folder / "datasets/tiny/prompts.parquet", columns=["prompt_id", "source"])
    maths = {row["prompt_id"] for row in prompts.to_pylist() if row["source"] == "synthetic/maths"}
    used = set(pq.read_table(folder / out / "labels.parquet")["prompt_id"].to_pylist())
    assert used
    assert used < maths  # the test split of them
    done = workplace.rbx("sweep", "tiny.yaml", "--out", out, "--set", "workload.sources=[poems]", code=1)
    assert "poems" in done.stderr
    assert "synthetic/maths" in done.stderr


def test_another_experiment_in_the_same_directory_is_refused(
    workplace: Workplace, finished: dict[str, bytes]
) -> None:
    done = workplace.rbx("sweep", "tiny.yaml", "--set", "name=other", "--out", "results/whole", code=1)
    assert "tiny" in done.stderr
    assert "--out" in done.stderr


def test_workers_end_with_a_killed_parent(workplace: Workplace, finished: dict[str, bytes]) -> None:
    def kill_parent_alone(process: subprocess.Popen[bytes]) -> None:
        os.kill(process.pid, signal.SIGKILL)

    started = time.monotonic()
    interrupt(workplace, "results/orphans", 2, kill_parent_alone)  # waits until the group is empty
    assert time.monotonic() - started < 100


def test_no_command_overwrites_what_another_made(workplace: Workplace, finished: dict[str, bytes]) -> None:
    pool = str(ROOT / "experiments/pools/paper.yaml")
    made = ("datasets/tiny", "results/bundles/tiny", "results/whole")
    before = {
        path: path.read_bytes() for name in made for path in sorted((workplace.folder / name).glob("*.*"))
    }
    grid, bundle, sweep = made
    workplace.rbx("train", grid, "--pool", pool, "--out", grid, "--no-compare", code=1)
    workplace.rbx("build-dataset", "tiny-dataset.yaml", "--out", sweep, "--force", code=1)
    workplace.rbx("sweep", "tiny.yaml", "--out", bundle, code=1)
    assert before
    assert {path: path.read_bytes() for path in before} == before
