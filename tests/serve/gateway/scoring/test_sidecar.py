"""A sidecar that dies, hangs or can't start: no request fails, nobody hangs, and the log tells."""

from __future__ import annotations

import dataclasses
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from rbx.heads.bundle import Bundle
from rbx.heads.routers.avengers_pro import AvengersPro
from tests.serve.gateway.scoring.test_rungs import PROMPTS, ask, gone, routed, sidecar
from tests.serve.gateway.serving import Serving, config, serving


def pid_of(place: Serving) -> int:
    pid = sidecar(place).process.pid
    assert pid is not None
    return pid


def folders(place: Path) -> list[Path]:
    return list(place.glob("rbx-sidecar-*"))


def until(holds: Callable[[], bool], within_s: float = 60.0) -> None:
    until_s = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < until_s
        time.sleep(0.05)


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary folders are made."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_killed_under_load_it_costs_no_request_and_comes_back(
    stored: Bundle, caplog: pytest.LogCaptureFixture
) -> None:
    with serving(config(**routed("sidecar")), bundle=stored) as place:
        seen: list[tuple[int, str]] = []
        stop = threading.Event()

        def press() -> None:
            with httpx.Client(base_url=place.url, timeout=60, trust_env=False) as client:
                k = 0
                while not stop.is_set():
                    answer = client.post("/v1/completions", json={"prompt": PROMPTS[k % len(PROMPTS)]})
                    seen.append((answer.status_code, answer.headers["x-rbx-decision-mode"]))
                    k += 1

        threads = [threading.Thread(target=press) for _ in range(6)]
        for thread in threads:
            thread.start()
        while len(seen) < 30:
            time.sleep(0.01)
        first = pid_of(place)
        before = len(seen)
        os.kill(first, signal.SIGKILL)
        until(lambda: pid_of(place) != first and "answers again" in caplog.text)
        after = len(seen)
        while len(seen) < after + 30:
            time.sleep(0.01)
        stop.set()
        for thread in threads:
            thread.join()
        place.settled()
        assert {status for status, _ in seen} == {200}
        assert {mode for _, mode in seen[: before - 6]} == {"policy"}
        assert "fallback" in {mode for _, mode in seen[before:after]}
        assert seen[-1][1] == "policy"
        assert "the scoring sidecar ended with exit code 137 (SIGKILL" in caplog.text
        second = pid_of(place)
        assert second != first
    assert gone(second)


def test_frozen_it_holds_nobody_up_for_long(stored: Bundle, caplog: pytest.LogCaptureFixture) -> None:
    quick = {**routed("sidecar"), "deadlines": {"encode_s": 0.5}}
    with serving(config(**quick), bundle=stored) as place:
        pid = pid_of(place)
        os.kill(pid, signal.SIGSTOP)
        try:
            started = time.monotonic()
            found = ask(place, PROMPTS[:8])
            assert {mode for _, mode in found.values()} == {"fallback"}
            assert time.monotonic() - started < 10.0
            assert "gives no answer to anybody" in caplog.text
        finally:
            os.kill(pid, signal.SIGCONT)
        place.settled()


def test_one_that_can_not_start_is_refused_with_its_last_words(stored: Bundle, tmp_path: Path) -> None:
    moved = dataclasses.replace(stored, folder=tmp_path / "nothing here")
    with serving(config(**routed("in-batch")), bundle=moved) as place:
        before = place.client.get("/v1/config").json()
        put = place.client.put("/v1/config", json=routed("sidecar"), timeout=120)
        assert put.status_code == 400, put.text
        assert "the scoring sidecar ended with exit code 1" in put.text
        assert "nothing here" in put.text
        assert place.client.get("/v1/config").json() == before
        assert {mode for _, mode in ask(place, PROMPTS[:3]).values()} == {"policy"}


def test_one_that_would_score_by_something_else_is_refused(stored: Bundle, tmp_path: Path) -> None:
    own = stored.router("avengers-pro")
    assert isinstance(own, AvengersPro)
    other = dataclasses.replace(own, beta=1.0)
    changed = dataclasses.replace(stored, routers={**stored.routers, "avengers-pro": other})
    changed.save(tmp_path / "bundle")
    pretends = dataclasses.replace(stored, folder=tmp_path / "bundle")
    with serving(config(**routed("in-batch")), bundle=pretends) as place:
        put = place.client.put("/v1/config", json=routed("sidecar"), timeout=120)
        assert put.status_code == 400
        assert "no longer the bundle that the gateway has read" in put.text


def test_it_ends_with_the_gateway_however_that_ends(bundle_folder: Path, tmp_path: Path) -> None:
    script = """
        import asyncio, sys
        from pathlib import Path
        from rbx.config.deployment import Sidecar
        from rbx.config.policy import RoutedPolicy
        from rbx.heads.bundle import Bundle
        from rbx.serve.gateway.scoring.sidecar_process import SidecarProcess
        from tests.serve.gateway.serving import small_pool

        async def main():
            policy = RoutedPolicy(router="linear", dispatch="shortest-queue", deployment=Sidecar())
            bundle = Bundle.load(Path(sys.argv[1]))
            process = SidecarProcess(bundle, small_pool(), policy, policy.deployment.queue, 1.0)
            await process.start()
            print(process.pid, flush=True)
            await asyncio.sleep(600)

        asyncio.run(main())
    """
    gateway = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script), str(bundle_folder)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    try:
        assert gateway.stdout is not None
        pid = int(gateway.stdout.readline())
        os.kill(pid, 0)
        assert folders(tmp_path)
    finally:
        gateway.kill()
        gateway.wait()
    assert gone(pid)
    until(lambda: not folders(tmp_path))


def test_one_whose_folder_was_cleared_away_is_started_again_all_the_same(
    stored: Bundle, scratch: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with serving(config(**routed("sidecar")), bundle=stored) as place:
        (folder,) = folders(scratch)
        shutil.rmtree(folder)
        first = pid_of(place)
        os.kill(first, signal.SIGKILL)
        until(lambda: "answers again" in caplog.text)
        assert pid_of(place) != first
        assert {mode for _, mode in ask(place, PROMPTS[:3]).values()} == {"policy"}
        assert "SIGKILL" in caplog.text
    assert folders(scratch) == []


def test_a_lone_prompt_may_wait_out_a_window_longer_than_a_call(stored: Bundle) -> None:
    held = {"kind": "sidecar", "max_size": 64, "window_s": 3.0}
    with serving(config(**{**routed(held), "deadlines": {"encode_s": 1.0}}), bundle=stored) as place:
        assert {mode for _, mode in ask(place, PROMPTS[:1]).values()} == {"policy"}


def test_a_configuration_that_can_not_be_warmed_leaves_no_sidecar(
    stored: Bundle, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        assert folders(scratch)
        raise RuntimeError("no kernel")

    with serving(config(**routed("in-batch")), bundle=stored) as place:
        monkeypatch.setattr("rbx.serve.gateway.versions.warm", fails)
        put = place.client.put("/v1/config", json=routed("sidecar"), timeout=120)
        assert put.status_code == 500
        assert folders(scratch) == []
