"""States that servers publish: found late, let go when they fail, fetched over HTTP, and never in the way."""

from __future__ import annotations

import asyncio
import time
from itertools import count
from pathlib import Path

import pytest

from rbx.config.endpoints import InstanceEndpoint
from rbx.config.gateway import Watch
from rbx.errors import EngineError
from rbx.serve.plugin.state_file import StateFile
from rbx.serve.state.published import StateBytes
from rbx.serve.state.remote import PATH
from rbx.serve.watch.exact import FetchedState, LocalState
from rbx.serve.watch.pool_watch import PoolWatch
from tests.serve.plugin.servers import COEFFICIENTS, publish, state_file
from tests.serve.watch.pages import small_pool
from tests.serve.watch.targets import HANGS, Target, until

CONFIG = Watch(period_s=0.03, timeout_s=0.15, max_age_s=5.0)
NOWHERE = InstanceEndpoint(url="http://127.0.0.1:1/v1")


VERSIONS = count(1)


def publishes(file: StateFile, waiting: int) -> bool:
    """As a server at work does, again and again."""
    publish(file, next(VERSIONS), time.monotonic(), waiting=waiting)
    return True


def rung(watch: PoolWatch) -> str:
    return watch.view(time.monotonic()).rungs[0]


def waiting_at(watch: PoolWatch) -> int:
    return int(watch.view(time.monotonic()).telemetry.waiting[0])


def test_a_state_is_taken_up_when_its_server_comes_and_left_when_it_goes(tmp_path: Path) -> None:
    async def story() -> None:
        endpoint = NOWHERE.model_copy(update={"state": tmp_path})
        watch = PoolWatch(small_pool(), [endpoint], CONFIG)
        await watch.start()
        assert rung(watch) == "shadow"
        assert watch.failures["tier/0", "state", "invalid"] > 0
        file = state_file(tmp_path)
        await until(lambda: publishes(file, 3) and rung(watch) == "state")
        sight = watch.view(time.monotonic())
        assert sight.telemetry.waiting.tolist() == [3]
        assert sight.telemetry.total_blocks.tolist() == [40]  # the server's own, not the pool file's
        assert sight.age_s[0] <= 1.0
        file.close()
        await until(lambda: rung(watch) == "shadow")
        successor = state_file(tmp_path, rank=1)
        await until(lambda: publishes(successor, 5) and rung(watch) == "state")
        assert watch.view(time.monotonic()).telemetry.waiting.tolist() == [5]
        successor.close()
        await watch.stop()

    asyncio.run(story())


def test_one_file_of_a_folder_must_fit(tmp_path: Path) -> None:
    state = LocalState(tmp_path, "tiny", COEFFICIENTS)
    with pytest.raises(EngineError, match="none fit model 'tiny'"):
        state.open()
    with pytest.raises(EngineError, match="no published state is open"):
        state.read(1.0)
    other = state_file(tmp_path, served_name="other")
    with pytest.raises(EngineError, match="none fit model 'tiny'"):
        state.open()
    files = [state_file(tmp_path, rank=rank) for rank in (1, 2)]
    with pytest.raises(EngineError, match="one must: name the file, or give each server a folder"):
        state.open()
    publish(files[0], 1, 50.0, waiting=2)
    named = LocalState(files[0].path, "any name", COEFFICIENTS)
    named.open()
    assert len(named.read(50.1).requests) == len(named.ids) == 2
    for file in (other, *files):
        file.close()


def test_a_state_over_http_is_fetched_in_the_background(tmp_path: Path) -> None:
    async def story() -> None:
        file = state_file(tmp_path)
        async with Target() as server:
            endpoint = NOWHERE.model_copy(update={"state_url": server.endpoint.url})
            watch = PoolWatch(small_pool(), [endpoint], CONFIG)
            await watch.start()
            assert rung(watch) == "shadow"
            assert watch.failures["tier/0", "state_url", "status"] == 1

            def tells(waiting: int) -> bool:
                """On a clock of its own, a day ahead of ours."""
                theirs_s = time.monotonic() + 86_400.0
                publish(file, next(VERSIONS), theirs_s, waiting=waiting)
                server.pages[PATH] = StateBytes(file.path).message(theirs_s + 0.1)
                return True

            await until(lambda: tells(2) and rung(watch) == "state_url")
            sight = watch.view(time.monotonic())
            assert sight.telemetry.waiting.tolist() == [2]
            assert sight.age_s[0] >= 0.1
            server.delay_s[PATH] = HANGS
            await until(lambda: rung(watch) == "shadow")  # too old by now
            server.delay_s.clear()
            await until(lambda: tells(3) and rung(watch) == "state_url" and waiting_at(watch) == 3)
            server.pages[PATH] = b"garbage"
            await until(lambda: watch.failures.get(("tier/0", "state_url", "invalid"), 0) > 0)
            assert rung(watch) == "shadow"
            await watch.stop()
        file.close()

    asyncio.run(story())


def test_nothing_is_read_before_something_was_fetched_and_after_nonsense(tmp_path: Path) -> None:
    state = FetchedState("http://host/state", COEFFICIENTS)
    with pytest.raises(EngineError, match="no state has been fetched"):
        state.read(1.0)
    file = state_file(tmp_path)
    publish(file, 1, 500.0, waiting=1)
    state.take(StateBytes(file.path).message(500.25), 10.0, 10.5)
    assert state.read(11.0).stamp_s == pytest.approx(10.0)
    with pytest.raises(EngineError):
        state.take(b"", 11.0, 11.5)
    with pytest.raises(EngineError, match="no state has been fetched"):
        state.read(12.0)
    file.close()
