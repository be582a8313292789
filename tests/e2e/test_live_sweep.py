"""A live sweep as a user runs it: mock servers that it launches, killed, resumed, reported and judged."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
import yaml

from rbx.sweep.live.table import LIVE
from rbx.sweep.records import RECORDS
from tests.serve.launch.processes import Running, running
from tests.workplace import EXPERIMENT, Workplace

N_REQUESTS = 80
WAIT_S = 600.0  # kernels are compiled by the gateway that comes up
OUT = "results/live"
LAUNCH = {
    "pool": EXPERIMENT["pool"],
    "launcher": {"kind": "mock"},
    "gateway": {"policy": {"kind": "passthrough", "dispatch": ["shortest-queue"]}},
}
LIVE_EXPERIMENT: dict[str, Any] = {
    **EXPERIMENT,
    "name": "live",
    "engine": "live",
    "live": {
        "target": {"kind": "launch", "file": "launch.yaml", "set": ["launcher.time_scale=20"]},
        "warm_up_requests": 4,
        "drain_s": 60.0,
        # How busy the machine of a test is says nothing about the code.
        "most_schedule_delay_p99_s": 60.0,
        "most_rate_error": 60.0,
    },
    "workload": {
        "rates_per_s": [20.0, 30.0],
        "n_requests": N_REQUESTS,
        "slo": {"ttft_s": 5.0},
        "budget": {"share": 0.3, "low_usd": 1e-5, "high_usd": 1e-4},
    },
    "policies": [
        {"kind": "routebalance", "weights": [[0.333, 0.334, 0.333]]},
        {"kind": "passthrough", "dispatch": ["shortest-queue"]},
    ],
}
N_CELLS = 2 * 2


@dataclass(frozen=True)
class Resumed:
    """What the resuming command said, and what the killed one had finished."""

    result: dict[str, Any]
    kept: dict[Path, int]  # modification times when it was killed


def finished(folder: Path) -> set[Path]:
    return set((folder / "cells").glob("*.json"))


def under_way(folder: Path, lines: int) -> bool:
    """Whether some cell has so many results in its journal."""
    return any(path.read_bytes().count(b"\n") >= lines for path in (folder / "journal").glob("*.jsonl"))


@pytest.fixture(scope="module")
def place(workplace: Workplace) -> Workplace:
    (workplace.folder / "launch.yaml").write_text(yaml.safe_dump(LAUNCH))
    (workplace.folder / "live.yaml").write_text(yaml.safe_dump(LIVE_EXPERIMENT))
    return workplace


@pytest.fixture(scope="module")
def resumed(place: Workplace) -> Resumed:
    folder = place.folder / OUT
    with running(["sweep", "live.yaml", "--out", OUT], place.folder, WAIT_S) as killed:
        killed.until(lambda: len(finished(folder)) >= 1 and under_way(folder, lines=5))
        assert len(killed.left()) >= 3  # the launch with its guard and servers, and a client process
        killed.process.kill()
        killed.process.wait()
        killed.nothing_left(60.0)
    kept = {path: path.stat().st_mtime_ns for path in sorted((folder / "cells").iterdir())}
    command = place.command("sweep", "live.yaml", "--out", OUT, "--json")
    done = subprocess.run(command, cwd=place.folder, capture_output=True, timeout=WAIT_S, check=True)
    return Resumed(json.loads(done.stdout), kept)


def table(place: Workplace, folder: str, cell_id: str) -> pa.Table:
    return pq.read_table(place.folder / OUT / folder / f"{cell_id}.parquet")


def cells(place: Workplace) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """(spec, summary) of each cell of the plan."""
    manifest = json.loads((place.folder / OUT / "manifest.json").read_text())
    assert len(manifest["cells"]) == N_CELLS
    for spec in manifest["cells"]:
        yield spec, json.loads((place.folder / OUT / "cells" / f"{spec['cell_id']}.json").read_text())


def test_a_killed_sweep_repeats_no_finished_cell_and_finishes_the_others(
    place: Workplace, resumed: Resumed
) -> None:
    n_kept = len([path for path in resumed.kept if path.suffix == ".json"])
    assert 1 <= n_kept < N_CELLS
    assert {key: resumed.result[key] for key in ("planned", "resumed", "ran", "left", "invalid")} == {
        "planned": N_CELLS,
        "resumed": n_kept,
        "ran": N_CELLS - n_kept,
        "left": 0,
        "invalid": 0,
    }
    assert {path: path.stat().st_mtime_ns for path in resumed.kept} == resumed.kept
    assert list((place.folder / OUT / "journal").iterdir()) == []


def test_every_request_of_every_cell_is_accounted_for(place: Workplace, resumed: Resumed) -> None:
    for spec, summary in cells(place):
        records, live = table(place, "cells", spec["cell_id"]), table(place, "live", spec["cell_id"])
        assert records.schema.equals(RECORDS)
        assert live.schema.equals(LIVE)
        assert records["request"].to_pylist() == live["request"].to_pylist() == list(range(N_REQUESTS))
        assert summary["scheduled"] == summary["sent"] == summary["ok"] == N_REQUESTS
        assert pc.all(pc.greater_equal(records["sent_s"], records["scheduled_s"])).as_py()
        assert pc.all(pc.greater(records["first_token_s"], records["dispatched_s"])).as_py()
        assert set(records["tokens_source"].to_pylist()) == {"usage"}
        # On a busy machine the encoder may take longer than the gateway waits for it.
        assert set(records["decision_mode"].to_pylist()) <= {"policy", "fallback"}
        number = int(summary["live"]["config_version"].partition("-")[0])
        assert set(records["config_version"].to_pylist()) == {number}
        for row, chunks in zip(records.to_pylist(), live["chunk_tokens"].to_pylist(), strict=True):
            assert row["output_tokens"] == sum(chunks)
            assert row["tier"] == row["instance"].rpartition("/")[0]


def test_costs_are_tokens_times_prices(place: Workplace, resumed: Resumed) -> None:
    pool = yaml.safe_load(Path(str(EXPERIMENT["pool"])).read_text())
    prices = {
        tier["name"]: (tier["price_in_usd_per_mtok"], tier["price_out_usd_per_mtok"])
        for tier in pool["tiers"]
    }
    for spec, _ in cells(place):
        for row in table(place, "cells", spec["cell_id"]).to_pylist():
            price_in, price_out = prices[row["tier"]]
            usd = (row["input_tokens"] * price_in + row["output_tokens"] * price_out) / 1e6
            assert row["cost_usd"] == pytest.approx(usd, rel=1e-9)


def test_a_budget_is_kept_to_and_what_it_ended_has_no_label(place: Workplace, resumed: Resumed) -> None:
    ended = 0
    for spec, _ in cells(place):
        for row in table(place, "cells", spec["cell_id"]).to_pylist():
            if row["exhausted"]:
                assert row["budget_usd"] is not None
                assert row["quality_status"] == "truncated"
                assert row["quality"] is None
                ended += 1
    assert ended > 0


def test_policies_at_one_rate_face_the_workload_that_a_simulator_would(
    place: Workplace, resumed: Resumed
) -> None:
    changes = ["engine=sim", "live=null", "name=simulated"]
    words = [word for change in changes for word in ("--set", change)]
    plan = json.loads(place.rbx("sweep", "live.yaml", "--dry-run", "--json", *words).stdout)
    simulated = {(cell["rate_per_s"], cell["label"]): cell["workload_hash"] for cell in plan}
    assert {
        (spec["rate_per_s"], spec["label"]): spec["workload_hash"] for spec, _ in cells(place)
    } == simulated
    assert len(set(simulated.values())) == 2


def test_what_the_servers_counted_is_kept(place: Workplace, resumed: Resumed) -> None:
    for spec, summary in cells(place):
        kept = {path.name for path in (place.folder / OUT / "server").glob(f"{spec['cell_id']}.*")}
        assert len(kept) == 2
        assert summary["live"]["simulated"] is True
        assert summary["live"]["time_scale"] == 20.0
        assert len(summary["live"]["identity"]["servers"]) == 13


def test_the_report_names_the_engine_and_the_answers(place: Workplace, resumed: Resumed) -> None:
    done = place.rbx("report", OUT, "--resamples", "200")
    assert "LIVE CLIENT" in done.stdout
    assert "SIMULATED ENGINE" in done.stdout
    page = (place.folder / OUT / "report" / "index.html").read_text()
    assert "Client and servers" in page
    assert "Completed requests, and all" in page
    summary = json.loads((place.folder / OUT / "report" / "summary.json").read_text())
    assert summary["cells"]["reported"] == N_CELLS
    assert summary["kinds"] == ["SYNTHETIC GRID", "LIVE CLIENT", "SIMULATED ENGINE"]


def test_served_answers_are_judged(place: Workplace, resumed: Resumed) -> None:
    rules = {"signals": [{"kind": "length", "name": "length"}]}
    (place.folder / "rules.yaml").write_text(yaml.safe_dump(rules))
    place.rbx("dataset", "judge", "--served", OUT, "--spec", "rules.yaml")
    labels = pq.read_table(place.folder / OUT / "served" / "labels.parquet")
    assert labels.num_rows == N_CELLS * N_REQUESTS
    assert pc.min(labels["score"]).as_py() > 0.0


def interrupted(place: Workplace, out: str, times: int) -> tuple[int, Running]:
    """Exit code of a sweep that gets Ctrl-C once a cell is under way, so many times."""
    folder = place.folder / out
    with running(["sweep", "live.yaml", "--redact-text", "--out", out], place.folder, WAIT_S) as command:
        command.until(lambda: under_way(folder, lines=5))
        command.process.send_signal(signal.SIGINT)
        command.wait_for("finishing the cell under way")
        if times == 2:
            command.process.send_signal(signal.SIGINT)
        code = command.process.wait(WAIT_S)
        command.nothing_left(30.0)
        return code, command


def test_ctrl_c_finishes_the_cell_and_twice_gives_it_up(place: Workplace) -> None:
    out = "results/interrupted"
    folder = place.folder / out
    code, _ = interrupted(place, out, times=2)
    assert code not in (0, 3)
    assert finished(folder) == set()
    assert list((folder / "journal").iterdir()) == []
    code, command = interrupted(place, out, times=1)
    assert code == 130
    assert len(finished(folder)) == 1
    assert "run the same command again" in command.said
    (path,) = finished(folder)
    served = pq.read_table(folder / "served" / f"{path.stem}.parquet")
    assert served.num_rows == N_REQUESTS
    assert served["response"].null_count == N_REQUESTS
    assert pq.read_table(folder / "live" / f"{path.stem}.parquet")["text_sha256"].null_count == 0
    assert list((folder / "journal").iterdir()) == []
