"""Whole cells with nothing stood in for: the load client's processes, HTTP, a gateway, mock servers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit

from rbx.load.client.hashed import fingerprint
from rbx.load.client.tally import Tally
from rbx.serve.mock.serving import serve_mock
from rbx.sweep.live import run as live_run
from rbx.sweep.live.openai_servers import OpenAiServers
from rbx.sweep.live.run import LiveResult, run_live_sweep
from rbx.sweep.live.texts import GridTexts
from rbx.sweep.plan import Plan
from rbx.sweep.store import SweepStore
from tests.sweep.live.gateways import Deployment, deployed, serving_gateway
from tests.sweep.live.plans import live_plan
from tests.sweep.live.test_cell import Silent
from tests.sweep.scenes import small_pool

N = 24
FREELY = {
    "warm_up_requests": 2,
    "drain_s": 30.0,
    # How busy the machine of a test is says nothing about the code.
    "most_schedule_delay_p99_s": 60.0,
    "most_rate_error": 60.0,
}
WORKLOAD = {"rates_per_s": [40.0], "n_requests": N, "max_output_tokens": 30}


@pytest.fixture(scope="module")
def deployment() -> Iterator[Deployment]:
    with deployed(small_pool()) as found:
        yield found


@pytest.fixture
def texts(monkeypatch: pytest.MonkeyPatch) -> dict[tuple[str, str], str]:
    """The grid's answers, as fingerprints; a test may fill them in."""
    answers: dict[tuple[str, str], str] = {}
    prompts = {f"p{i:03d}": f"Prompt number {i}, at some length" for i in range(80)}
    monkeypatch.setattr(live_run, "read_texts", lambda folder, digest: GridTexts(prompts, answers))
    monkeypatch.setattr("rbx.heads.bundle.Bundle.load", lambda path: None)
    return answers


def run(plan: Plan, folder: Path) -> LiveResult:
    return run_live_sweep(plan, folder, Silent(), retry_invalid=False, stopping=lambda: None)


def kept(plan: Plan, folder: Path) -> Iterator[tuple[dict[str, Any], pa.Table, pa.Table]]:
    """Summary, records and stamps of each cell."""
    for cell in plan.cells:
        summary = json.loads(SweepStore(folder).summary_path(cell.cell_id).read_text())
        yield (
            summary,
            pq.read_table(folder / "cells" / f"{cell.cell_id}.parquet"),
            pq.read_table(folder / "live" / f"{cell.cell_id}.parquet"),
        )


def test_policies_are_swapped_in_a_running_gateway_and_what_stood_there_comes_back(
    deployment: Deployment, texts: dict[tuple[str, str], str], tmp_path: Path
) -> None:
    before = deployment.gateway.versions.current.policy.label
    plan = live_plan(
        {"kind": "gateway", "url": deployment.url},
        [{"kind": "always", "model": "*"}, {"kind": "external", "name": "as it stands"}],
        workload=WORKLOAD,
        **FREELY,
    )
    result = run(plan, tmp_path / "sweep")
    assert (result.ran, result.invalid) == (3, 0)
    served = {}
    for (summary, records, live), cell in zip(kept(plan, tmp_path / "sweep"), plan.cells, strict=True):
        assert summary["ok"] == N
        assert summary["live"]["simulated"] is True
        assert summary["live"]["warm_up"] == {"ok": 2}
        assert set(live["attempts"].to_pylist()) == {1}
        assert max(records["output_tokens"].to_pylist()) == 30
        served[cell.label] = set(records["model"].to_pylist())
    assert served["always:small/shortest-queue"] == {"small"}
    assert served["always:large/shortest-queue"] == {"large"}
    assert served["as it stands"] <= {"small", "large"}
    assert deployment.gateway.versions.current.policy.label == before


def test_answers_like_the_grids_are_counted_by_tier(
    deployment: Deployment, texts: dict[tuple[str, str], str], tmp_path: Path
) -> None:
    target = {"kind": "gateway", "url": deployment.url}
    plan = live_plan(target, [{"kind": "always", "model": "small"}], workload=WORKLOAD, **FREELY)
    run(plan, tmp_path / "first")
    (cell,) = plan.cells
    rows = pq.read_table(tmp_path / "first" / "served" / f"{cell.cell_id}.parquet").to_pylist()
    same = [row for row in rows if row["request"] % 2]
    texts.update({(row["prompt_id"], "small"): fingerprint("Another.") for row in rows})
    texts.update({(row["prompt_id"], "small"): fingerprint(row["response"] + "\n") for row in same})
    run(plan, tmp_path / "second")
    ((summary, records, live),) = kept(plan, tmp_path / "second")
    # A mock server's words follow from the prompt, as a real one's nearly do.
    assert summary["live"]["matches"] == {"small_gpu": {"compared": N, "matched": len(same)}}
    for request, matches, status in zip(
        live["request"].to_pylist(),
        live["text_matches"].to_pylist(),
        records["quality_status"].to_pylist(),
        strict=True,
    ):
        assert matches is bool(request % 2)
        cut = live["finish_reason"].to_pylist()[request] == "length"
        assert status in (("truncated",) if cut and not matches else ("ok", "missing"))


def test_text_that_is_not_to_be_kept_is_not_on_disk_while_the_cell_runs_either(
    deployment: Deployment, texts: dict[tuple[str, str], str], tmp_path: Path
) -> None:
    target = {"kind": "gateway", "url": deployment.url}
    plan = live_plan(target, [{"kind": "always", "model": "small"}], workload=WORKLOAD, **FREELY)
    run(plan, tmp_path / "kept")
    (cell,) = plan.cells
    served = pq.read_table(tmp_path / "kept" / "served" / f"{cell.cell_id}.parquet").to_pylist()
    texts.update({(row["prompt_id"], "small"): fingerprint(row["response"]) for row in served})
    answers = [text for row in served if len(text := row["response"].encode()) > 40]
    assert answers  # shorter ones might stand somewhere by chance
    plan = live_plan(
        target, [{"kind": "always", "model": "small"}], workload=WORKLOAD, keep_text=False, **FREELY
    )
    folder = tmp_path / "redacted"
    seen: list[bytes] = []

    class Looking(Silent):
        def phase(self, words: str, *, waiting: bool = False) -> None:
            journals = [path.read_bytes() for path in (folder / "journal").glob("*")]
            seen.extend(data for data in journals if data)

    result = run_live_sweep(plan, folder, Looking(), retry_invalid=False, stopping=lambda: None)
    assert (result.ran, result.invalid) == (1, 0)
    assert max(len(data.splitlines()) for data in seen) == N  # there is a journal of every answer
    assert not any(answer[:40] in data for data in seen for answer in answers)
    ((summary, _, live),) = kept(plan, folder)
    assert summary["live"]["matches"] == {"small_gpu": {"compared": N, "matched": N}}
    whole = pq.read_table(tmp_path / "kept" / "live" / f"{cell.cell_id}.parquet")
    assert live["text_sha256"].to_pylist() == whole["text_sha256"].to_pylist()


def test_any_endpoint_can_be_driven_without_a_gateway(
    texts: dict[tuple[str, str], str], tmp_path: Path
) -> None:
    pool = small_pool()
    with serve_mock(pool, time_scale=20.0) as mock:
        url = mock.endpoints.instances["large_gpu/0"].url
        target = {"kind": "openai", "url": url, "model": "large"}
        plan = live_plan(target, [{"kind": "external"}], workload=WORKLOAD, **FREELY)
        result = run(plan, tmp_path / "sweep")
    assert (result.ran, result.invalid) == (1, 0)
    ((summary, records, live),) = kept(plan, tmp_path / "sweep")
    assert summary["ok"] == N
    assert set(records["tier"].to_pylist()) == {"large_gpu"}
    assert records["decided_s"].null_count == N
    assert live["gateway_mode"].null_count == N
    price = 0.40e-6
    for row in records.to_pylist():
        assert row["cost_usd"] == pytest.approx((row["input_tokens"] + row["output_tokens"]) * price)


def test_answers_without_usage_are_counted_by_a_tokenizer_where_one_is_named(
    texts: dict[tuple[str, str], str], tmp_path: Path
) -> None:
    tokenizer = Tokenizer(WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = WhitespaceSplit()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    with serve_mock(small_pool(), time_scale=20.0) as mock:
        mock.set_faults({"kind": "usage", "mode": "missing"})
        url = mock.endpoints.instances["large_gpu/0"].url
        plan = live_plan(
            {"kind": "openai", "url": url, "model": "large"},
            [{"kind": "external"}],
            workload=WORKLOAD,
            client={"tokenizer": str(tmp_path / "tokenizer.json")},
            **FREELY,
        )
        run(plan, tmp_path / "sweep")
    ((summary, records, _),) = kept(plan, tmp_path / "sweep")
    assert summary["ok"] == N
    (cell,) = plan.cells
    served = pq.read_table(tmp_path / "sweep" / "served" / f"{cell.cell_id}.parquet").to_pylist()
    words = {row["request"]: len(row["response"].split()) for row in served}
    assert records["tokens_source"].to_pylist() == ["recount"] * N
    assert dict(enumerate(records["output_tokens"].to_pylist())) == words


class AtSent(Silent):
    """Does something once, when so many requests of a cell's own have left."""

    def __init__(self, sent: int, what: Callable[[], None]) -> None:
        super().__init__()
        self._sent, self._what = sent, what
        self.done = False

    def counted(self, tally: object) -> None:
        if not self.done and isinstance(tally, Tally) and tally.sent >= self._sent:
            self.done = True
            self._what()


def test_a_gateway_that_dies_amid_the_cell_makes_it_invalid_and_it_is_run_again_when_asked(
    texts: dict[tuple[str, str], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rbx.sweep.live.gateway_servers.GatewayServers.nobody_s", 0.5)
    pool, workload = small_pool(), {**WORKLOAD, "n_requests": 80}
    with serve_mock(pool, time_scale=20.0) as mock:
        with serving_gateway(pool, mock.endpoints.of(pool)) as gateway:
            target = {"kind": "gateway", "url": gateway.url}
            plan = live_plan(target, [{"kind": "always", "model": "*"}], workload=workload, **FREELY)
            killer = AtSent(20, gateway.stop)
            result = run_live_sweep(
                plan, tmp_path / "sweep", killer, retry_invalid=False, stopping=lambda: None
            )
        assert killer.done
        assert (result.ran, result.invalid, result.gave_up) == (2, 2, False)
        found = [summary["live"] for summary, _, _ in kept(plan, tmp_path / "sweep")]
        lost, never = sorted(found, key=lambda live: live["fault"] is not None)
        assert lost["reasons"][0].startswith("target_lost: connection refused at http://127.0.0.1:")
        assert not any(line.startswith("the servers were") for line in lost["warnings"])
        assert never["reasons"][0].startswith("not_there: nothing listens at http://127.0.0.1:")


def test_a_server_that_dies_behind_a_gateway_that_lives_is_a_result(
    texts: dict[tuple[str, str], str], tmp_path: Path
) -> None:
    pool = small_pool()
    with deployed(pool) as place:
        target = {"kind": "gateway", "url": place.url}
        plan = live_plan(target, [{"kind": "always", "model": "large"}], workload=WORKLOAD, **FREELY)
        killer = AtSent(1, lambda: place.mock.set_faults({"kind": "down", "target": "large_gpu/0"}))
        result = run_live_sweep(plan, tmp_path / "one", killer, retry_invalid=False, stopping=lambda: None)
        assert killer.done
        assert (result.ran, result.invalid) == (1, 0)
        ((summary, _, _),) = kept(plan, tmp_path / "one")
        assert summary["live"]["reasons"] == []
        assert summary["ok"] < N


def _impatient(servers: type[OpenAiServers], target: Any, asker: Any, ready_s: float) -> OpenAiServers:
    return servers(target, asker, min(ready_s, 0.5))


def test_an_endpoint_that_is_not_there_is_told(
    texts: dict[tuple[str, str], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = {"kind": "openai", "url": "http://127.0.0.1:9/v1", "model": "large"}
    plan = live_plan(target, [{"kind": "external"}], workload=WORKLOAD, **FREELY)
    monkeypatch.setattr("rbx.sweep.live.opening.OpenAiServers", partial(_impatient, OpenAiServers))
    result = run(plan, tmp_path / "sweep")
    assert result.invalid == 1
    ((summary, _, _),) = kept(plan, tmp_path / "sweep")
    assert summary["live"]["fault"] == "not_ready"
    assert (summary["sent"], summary["not_sent"]) == (0, N)
