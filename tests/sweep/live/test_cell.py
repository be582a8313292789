"""One live cell and a sweep of them, on a target that does as it is told."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import orjson
import pyarrow.parquet as pq
import pytest

from rbx.config.endpoints import InstanceEndpoint
from rbx.config.policy import SinglePolicy
from rbx.load.client.health import ClientHealth
from rbx.load.client.request import LoadRequest
from rbx.load.client.result import LoadResult
from rbx.sweep.live import run as live_run
from rbx.sweep.live.fault import TargetFault
from rbx.sweep.live.identity import Identity
from rbx.sweep.live.run import LiveResult, in_order, run_live_sweep
from rbx.sweep.live.target import Installed
from rbx.sweep.live.texts import GridTexts
from rbx.sweep.store import CellSpec, CellSummary, SweepStore
from tests.sweep.live.plans import live_plan
from tests.sweep.live.results import ok
from tests.sweep.live.test_validity import HEALTHY

N = 20


class ToldTarget:
    """Writes down what is asked of it; ``fail`` may raise at any step, before it is done."""

    url, key, model, traced, simulated, time_scale = "http://127.0.0.1:1/v1", None, "auto", True, True, 4.0
    endpoints: Mapping[str, InstanceEndpoint] = {}

    def __init__(self, said: list[str], fail: Callable[[str], None]) -> None:
        self._said, self._fail = said, fail
        self.version = 0
        self.gone: str | None = None

    def _step(self, name: str) -> None:
        self._said.append(name)
        self._fail(name)

    async def ready(self, tell: Callable[[str], None] = print) -> None:
        self._step("ready")

    async def identity(self) -> Identity:
        self._step("identity")
        return Identity("gateway", self.url, ("small", "large"))

    async def install(self, policy: SinglePolicy) -> Installed:
        self._step("install")
        self.version += 1
        return Installed(policy.label, self.version, f"{self.version}-x")

    async def drained(self, within_s: float) -> bool:
        self._step("drained")
        return True

    async def lost(self) -> str | None:
        self._step("lost")
        return self.gone

    async def reset_prefix_caches(self) -> tuple[str, ...]:
        self._step("reset")
        return ()

    async def pages(self) -> dict[str, str]:
        self._step("pages")
        return {"small_gpu/0": "vllm:prefix_cache_queries_total 10\nvllm:prefix_cache_hits_total 3\n"}

    def describe(self) -> dict[str, Any]:
        return {"kind": "gateway"}


class Silent:
    """An onlooker that keeps what it is told."""

    def __init__(self) -> None:
        self.order: list[str] = []
        self.phases: list[str] = []
        self.finished = 0

    def planned(self, todo: tuple[CellSpec, ...], finished: int) -> None:
        self.order, self.finished = [cell.cell_id for cell in todo], finished

    def begun(self, cell: CellSpec) -> None:
        pass

    def phase(self, words: str, *, waiting: bool = False) -> None:
        self.phases.append(words)

    def counted(self, tally: object) -> None:
        pass

    def ended(self, cell: CellSpec, summary: CellSummary) -> None:
        pass


class Scene:
    """A plan of two policies at two rates, a target, and a load client that answers everything at once."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, **live: Any) -> None:
        self.folder = folder
        self.said: list[str] = []
        self.sent: list[list[LoadRequest]] = []
        self.stopped: list[bool] = []
        self.health: ClientHealth = HEALTHY
        self.fail: Callable[[str], None] = lambda step: None
        self.during: Callable[[threading.Event], None] = lambda stop: None
        self.answer: Callable[[LoadRequest], LoadResult] = lambda request: ok(
            request.request,
            scheduled_s=request.scheduled_s,
            headers={"x-rbx-config-version": f"{self.target.version}-x"},
        )
        self.target = ToldTarget(self.said, lambda step: self.fail(step))
        self.plan = live_plan(
            {"kind": "gateway", "url": "http://127.0.0.1:8200"},
            [{"kind": "passthrough", "dispatch": ["shortest-queue", "random"]}],
            workload={"rates_per_s": [20.0, 50.0], "n_requests": N},
            **live,
        )
        texts = {prompt_id: f"Prompt {prompt_id}" for prompt_id in self.plan.context.prompts.prompt_ids}
        monkeypatch.setattr(live_run, "opened", self._opened)
        monkeypatch.setattr(live_run, "read_texts", lambda folder, digest: GridTexts(texts, {}))
        monkeypatch.setattr("rbx.heads.bundle.Bundle.load", lambda path: None)
        monkeypatch.setattr("rbx.sweep.live.sending.run_load", self._run_load)

    @asynccontextmanager
    async def _opened(self, *given: object, **named: object) -> AsyncIterator[ToldTarget]:
        self.said.append("open")
        yield self.target
        self.said.append("close")

    def _run_load(
        self,
        requests: Sequence[LoadRequest],
        target: object,
        client: object,
        journal: Path,
        drain_s: float,
        *,
        keep_text: bool,
        progress: object = None,
        stop: threading.Event,
    ) -> ClientHealth:
        self.said.append("load")
        self.sent.append(list(requests))
        self.during(stop)
        self.stopped.append(stop.is_set())
        journal.write_bytes(b"".join(orjson.dumps(self.answer(each)) + b"\n" for each in requests))
        return replace(self.health, sent=len(requests))

    def run(self, onlooker: Silent | None = None, *, retry_invalid: bool = False) -> LiveResult:
        return run_live_sweep(
            self.plan,
            self.folder,
            onlooker or Silent(),
            retry_invalid=retry_invalid,
            stopping=lambda: self.said.append("stopping"),
        )

    def summary(self, cell: CellSpec) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(SweepStore(self.folder).summary_path(cell.cell_id).read_text())
        return found


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scene:
    return Scene(tmp_path / "sweep", monkeypatch)


ONE_CELL = [
    "ready",
    "identity",
    "install",
    "load",  # the warm-up
    "drained",
    "install",  # with nothing learned from it
    "pages",
    "load",
    "lost",
    "drained",
    "pages",
]


def test_each_cell_goes_through_the_same_steps_in_the_shuffled_order(scene: Scene) -> None:
    onlooker = Silent()
    result = scene.run(onlooker)
    assert asdict(result) == {
        "planned": 4,
        "resumed": 0,
        "ran": 4,
        "left": 0,
        "invalid": 0,
        "gave_up": False,
    }
    assert scene.said == ["open", *(4 * ONE_CELL), "close"]
    live = scene.plan.context.experiment.live
    assert live is not None
    assert onlooker.order == [cell.cell_id for cell in in_order(scene.plan.cells, live)]
    assert [len(requests) for requests in scene.sent] == 4 * [16, N]


def test_a_salt_is_a_cells_own_and_new_at_each_try(scene: Scene) -> None:
    def salts(requests: list[LoadRequest]) -> set[str]:
        return {json.loads(each.body)["cache_salt"] for each in requests}

    scene.run()
    used = [salts(requests) for requests in scene.sent]
    assert all(len(each) == 1 for each in used)
    assert len(set.union(*used)) == len(used)  # a warm-up warms nothing for its cell either
    for path in (scene.folder / "cells").glob("*.json"):
        path.unlink()
    scene.run()
    assert len(set.union(*(salts(requests) for requests in scene.sent))) == 2 * len(used)


def test_caches_may_be_dropped_instead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(tmp_path / "sweep", monkeypatch, prefix_cache="reset", warm_up_requests=0)
    scene.run()
    steps = [
        "ready",
        "identity",
        "install",
        "drained",
        "install",
        "reset",
        "pages",
        "load",
        "lost",
        "drained",
        "pages",
    ]
    assert scene.said == ["open", *(4 * steps), "close"]
    assert not any("cache_salt" in json.loads(each.body) for sent in scene.sent for each in sent)


def test_what_is_kept_of_a_cell(scene: Scene) -> None:
    scene.run()
    for cell in scene.plan.cells:
        summary = scene.summary(cell)
        assert summary["scheduled"] == summary["sent"] == summary["ok"] == N
        assert summary["live"]["reasons"] == []
        assert summary["live"]["prefix_cache"] == {
            "policy": "salt",
            "queries": 0.0,
            "hits": 0.0,
            "missing": [],
        }
        assert summary["live"]["warm_up"] == {"ok": 16}
        assert (summary["live"]["simulated"], summary["live"]["time_scale"]) == (True, 4.0)
        for folder in ("cells", "live", "served"):
            assert pq.read_table(scene.folder / folder / f"{cell.cell_id}.parquet").num_rows == N
    assert list((scene.folder / "journal").iterdir()) == []


def test_a_finished_cell_is_never_run_again_and_a_lost_one_is(scene: Scene) -> None:
    scene.run()
    first, second = scene.plan.cells[:2]
    SweepStore(scene.folder).summary_path(first.cell_id).unlink()
    (scene.folder / "journal" / "old.jsonl").write_text("half a line")
    kept = SweepStore(scene.folder).records_path(second.cell_id).stat().st_mtime_ns
    onlooker = Silent()
    result = scene.run(onlooker)
    assert (result.resumed, result.ran, onlooker.finished) == (3, 1, 3)
    assert onlooker.order == [first.cell_id]
    assert SweepStore(scene.folder).records_path(second.cell_id).stat().st_mtime_ns == kept
    assert list((scene.folder / "journal").iterdir()) == []
    scene.said.clear()
    assert scene.run().ran == 0
    assert scene.said == []  # nothing is brought up for nothing


def test_an_invalid_cell_is_kept_with_its_reason_and_retried_when_asked(scene: Scene) -> None:
    scene.health = replace(HEALTHY, schedule_delay_p99_s=0.5)
    assert scene.run().invalid == 4
    reasons = scene.summary(scene.plan.cells[0])["live"]["reasons"]
    assert len(reasons) == 1
    assert reasons[0].startswith("client-bound")
    scene.health = HEALTHY
    again = scene.run()
    assert (again.ran, again.invalid) == (0, 4)
    mended = scene.run(retry_invalid=True)
    assert (mended.ran, mended.resumed, mended.invalid) == (4, 0, 0)


def test_a_cell_whose_stamps_are_lost_is_invalid_and_measured_anew_when_asked(scene: Scene) -> None:
    scene.run()
    missing, cut = scene.plan.cells[:2]
    tables = {cell.cell_id: scene.folder / "live" / f"{cell.cell_id}.parquet" for cell in scene.plan.cells}
    assert scene.summary(cut)["live"]["table_sha256"] == sha256(tables[cut.cell_id].read_bytes()).hexdigest()
    tables[missing.cell_id].unlink()
    tables[cut.cell_id].write_bytes(tables[cut.cell_id].read_bytes()[:-100])
    again = scene.run()
    assert (again.ran, again.invalid) == (0, 2)
    onlooker = Silent()
    mended = scene.run(onlooker, retry_invalid=True)
    assert (mended.ran, mended.invalid) == (2, 0)
    assert set(onlooker.order) == {missing.cell_id, cut.cell_id}


@pytest.mark.parametrize("step", ["ready", "identity", "install", "drained"])
def test_a_cell_that_can_not_be_run_is_kept_as_such_and_the_next_one_goes_on(scene: Scene, step: str) -> None:
    failures = iter([TargetFault("wrong_model", "another model is there")])

    def fail(name: str) -> None:
        if name == step and (fault := next(failures, None)):
            raise fault

    scene.fail = fail
    result = scene.run()
    assert (result.ran, result.invalid, result.gave_up) == (4, 1, False)
    bad = [summary for cell in scene.plan.cells if (summary := scene.summary(cell))["live"]["fault"]]
    (summary,) = bad
    assert summary["live"]["reasons"] == ["wrong_model: another model is there"]
    assert (summary["scheduled"], summary["sent"], summary["not_sent"]) == (N, 0, N)


def test_servers_that_never_come_up_are_given_up_after_two_cells(scene: Scene) -> None:
    def fail(name: str) -> None:
        raise TargetFault("launch_failed", "the last lines of its log")

    scene.fail = fail
    result = scene.run()
    assert (result.ran, result.left, result.invalid, result.gave_up) == (2, 2, 2, True)
    assert scene.said == ["open", "ready", "ready", "close"]


def test_an_address_where_nobody_is_ends_the_sweep_with_its_first_cell(scene: Scene) -> None:
    def fail(name: str) -> None:
        raise TargetFault("not_there", "nothing listens there")

    scene.fail = fail
    result = scene.run()
    assert (result.ran, result.left, result.invalid, result.gave_up) == (1, 3, 1, True)


def test_a_target_that_is_gone_after_the_load_makes_the_cell_invalid_and_is_not_waited_for(
    scene: Scene,
) -> None:
    scene.target.gone = "connection refused at http://gateway"
    assert scene.run().invalid == 4
    live = scene.summary(scene.plan.cells[0])["live"]
    assert live["reasons"] == ["target_lost: connection refused at http://gateway; 0 of 20 requests failed"]
    assert scene.said.count("drained") == 4  # before the loads alone
    scene.target.gone = None
    assert scene.run(retry_invalid=True).invalid == 0


def test_a_warm_up_without_an_answer_ends_the_cell_before_it_begins(scene: Scene) -> None:
    whole = scene.answer
    scene.answer = lambda request: replace(whole(request), status="error", fault="refused", detail="no one")
    result = scene.run()
    assert result.gave_up is True
    (path, _) = sorted((scene.folder / "cells").glob("*.json"))
    reasons = json.loads(path.read_text())["live"]["reasons"]
    assert "no warm-up request was answered: refused: no one" in reasons[0]


def test_another_configuration_amid_the_cell_makes_it_invalid(scene: Scene) -> None:
    whole = scene.answer
    scene.answer = lambda request: replace(
        whole(request), headers={**whole(request).headers, "x-rbx-config-version": "99-y"}
    )
    assert scene.run().invalid == 4
    assert scene.summary(scene.plan.cells[0])["live"]["reasons"][0].startswith("config_changed: 20 answers")


def test_text_that_is_not_to_be_kept_is_kept_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(tmp_path / "sweep", monkeypatch, keep_text=False)
    whole = scene.answer
    scene.answer = lambda request: replace(whole(request), text="a SECRET answer", reasoning="SECRET thought")
    scene.run()
    for path in scene.folder.rglob("*"):
        if path.suffix == ".parquet":
            assert "SECRET" not in str(pq.read_table(path).to_pylist())
        elif path.is_file():
            assert b"SECRET" not in path.read_bytes()


def test_what_a_killed_sweep_has_left_at_the_gateway_is_undone_when_no_cell_is_left(scene: Scene) -> None:
    scene.run()
    scene.said.clear()
    (scene.folder / "found_config.json").write_text("{}")
    assert scene.run().ran == 0
    assert scene.said == ["open", "close"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_first_ctrl_c_lets_the_cell_finish_and_starts_no_other(
    scene: Scene, number: signal.Signals
) -> None:
    def during(stop: threading.Event) -> None:
        if len(scene.sent) == 4:  # the second cell's own load
            os.kill(os.getpid(), number)

    scene.during = during
    result = scene.run()
    assert (result.ran, result.left) == (2, 2)
    assert "stopping" in scene.said
    assert scene.said[-1] == "close"
    assert scene.stopped == [False] * 4


def test_the_second_ctrl_c_stops_the_load_keeps_nothing_of_the_cell_and_lets_go_of_the_servers(
    scene: Scene,
) -> None:
    def during(stop: threading.Event) -> None:
        if len(scene.sent) == 4:
            os.kill(os.getpid(), signal.SIGINT)
            while "stopping" not in scene.said:  # a signal that is pending takes no second one
                time.sleep(0.01)
            os.kill(os.getpid(), signal.SIGINT)
            assert stop.wait(10.0)

    scene.during = during
    with pytest.raises(KeyboardInterrupt):
        scene.run()
    assert scene.stopped == [False, False, False, True]
    assert len(list((scene.folder / "cells").glob("*.json"))) == 1
    assert list((scene.folder / "journal").iterdir()) == []
    assert scene.run().resumed == 1
