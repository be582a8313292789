"""A pool watched over real HTTP: faults of one target stay its own, and nobody dead looks idle or ready."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

import pytest

from rbx.config.endpoints import InstanceEndpoint
from rbx.config.gateway import Watch
from rbx.errors import ConfigError, EngineError
from rbx.serve.watch.fetch import MOST_BYTES
from rbx.serve.watch.pool_watch import PoolWatch
from tests.serve.watch.pages import metrics, small_pool
from tests.serve.watch.targets import HANGS, Target, until

CONFIG = Watch(period_s=0.03, timeout_s=0.15, max_age_s=0.4)
NAMES = ["tier/0", "tier/1"]


def well(running: int = 0, **more: float) -> Target:
    return Target({"/metrics": metrics(running, **more), "/health": ""})


def watch_of(*targets: Target, config: Watch = CONFIG) -> PoolWatch:
    return PoolWatch(small_pool(len(targets)), [target.endpoint for target in targets], config)


def requests_at(watch: PoolWatch, i: int) -> int:
    seen = watch.view(time.monotonic()).telemetry
    return int(seen.running[i] + seen.waiting[i])


def gauge_age_s(watch: PoolWatch, i: int) -> float:
    return watch.ages_s(time.monotonic())[i]["gauges"]


def ready(watch: PoolWatch) -> list[bool]:
    return [bool(each) for each in watch.ready(time.monotonic())]


def run_on(story: Callable[[Target, Target, PoolWatch], Awaitable[None]], *targets: Target) -> None:
    """The story of two targets and their watch, which has tried each page once."""

    async def tell() -> None:
        first, second = targets
        async with first, second:
            watch = watch_of(first, second)
            await watch.start()
            try:
                await story(first, second, watch)
            finally:
                await watch.stop()

    asyncio.run(tell())


def test_gauges_and_readiness_come_in_by_themselves() -> None:
    async def story(first: Target, second: Target, watch: PoolWatch) -> None:
        sight = watch.view(time.monotonic())
        assert sight.ready.tolist() == [True, True]
        assert (sight.telemetry.running + sight.telemetry.waiting).tolist() == [3, 0]
        assert sight.rungs == ("shadow", "shadow")
        assert (sight.age_s < CONFIG.max_age_s + CONFIG.timeout_s).all()
        assert sight.telemetry.stamp_s == pytest.approx(sight.now_s - sight.age_s)
        second.pages["/metrics"] = metrics(2)
        await until(lambda: requests_at(watch, 1) == 2)
        assert watch.failures == {}
        assert first.asked["/metrics"] > 1

    run_on(story, well(3), well())


FAULTS: dict[str, tuple[str, Callable[[Target], None]]] = {
    "garbage": ("invalid", lambda target: target.pages.update({"/metrics": b"\xff\xfe<html>\x00"})),
    "NaN": ("invalid", lambda target: target.pages.update({"/metrics": metrics(float("nan"))})),
    "negative": ("invalid", lambda target: target.pages.update({"/metrics": metrics(-1, -2)})),
    "huge number": ("invalid", lambda target: target.pages.update({"/metrics": metrics(1e15)})),
    "endless": ("too large", lambda target: target.endless.add("/metrics")),
    "huge page": (
        "too large",
        lambda target: target.pages.update({"/metrics": b"#" * (MOST_BYTES + 1)}),
    ),
    "hanging": ("timeout", lambda target: target.delay_s.update({"/metrics": HANGS})),
    "slow": ("timeout", lambda target: target.delay_s.update({"/metrics": 1.0})),
    "500": ("status", lambda target: target.status.update({"/metrics": 500})),
    "redirect": ("status", lambda target: target.status.update({"/metrics": 302})),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_one_page_is_counted_ages_and_stays_its_own(fault: str) -> None:
    """Our own requests stay counted, those of others go with their gauge; the other target is as before."""
    reason, break_it = FAULTS[fault]

    async def story(first: Target, second: Target, watch: PoolWatch) -> None:
        watch.dispatched(0, "ours", time.monotonic(), 20, 100, 50)
        await until(lambda: requests_at(watch, 0) == 3)
        break_it(first)
        await until(lambda: watch.failures.get(("tier/0", "gauges", reason), 0) >= 2)
        await until(lambda: gauge_age_s(watch, 0) > CONFIG.max_age_s)
        assert requests_at(watch, 0) == 1
        assert watch.in_flight.tolist() == [1, 0]
        older_s = gauge_age_s(watch, 0)
        asked = second.asked["/metrics"]
        await until(lambda: second.asked["/metrics"] > asked + 2)
        assert gauge_age_s(watch, 0) > older_s
        assert gauge_age_s(watch, 1) < CONFIG.max_age_s
        assert requests_at(watch, 1) == 2
        assert {name for name, _, _ in watch.failures} == {"tier/0"}
        assert ready(watch) == [True, True]  # the probe still answers

    run_on(story, well(3), well(2))


def test_a_page_that_flaps_is_used_when_it_is_there() -> None:
    async def story(first: Target, second: Target, watch: PoolWatch) -> None:
        def failed() -> int:
            return watch.failures.get(("tier/0", "gauges", "status"), 0)

        async def flap(running: int) -> None:
            failed_before = failed()
            first.status["/metrics"] = 500
            await until(lambda: failed() > failed_before)
            first.pages["/metrics"] = metrics(running)
            del first.status["/metrics"]
            await until(lambda: requests_at(watch, 0) == running)

        for running in (1, 2, 3):
            await flap(running)

    run_on(story, well(), well())


def test_dead_and_hung_servers_are_not_ready_and_not_idle_and_come_back() -> None:
    async def story(first: Target, second: Target, watch: PoolWatch) -> None:
        for i in range(2):
            watch.dispatched(i, f"ours{i}", time.monotonic(), 20, 100, 50)
        await first.down()
        second.delay_s.update({"/metrics": HANGS, "/health": HANGS})
        await until(lambda: ready(watch) == [False, False])
        assert [requests_at(watch, i) for i in range(2)] == [1, 1]
        await until(lambda: watch.failures.get(("tier/1", "probe", "timeout"), 0) > 0)
        assert watch.failures["tier/0", "probe", "refused"] > 0
        watch.tokens(1, "ours1", time.monotonic(), 3)
        assert ready(watch) == [False, True]
        await first.up()
        second.delay_s.clear()
        await until(lambda: ready(watch) == [True, True])

    run_on(story, well(), well())


def test_a_sick_engine_behind_a_server_that_answers_is_not_ready_at_once() -> None:
    """vLLM answers /health with 503 when its engine has died, and /metrics as ever."""

    async def story(first: Target, second: Target, watch: PoolWatch) -> None:
        first.status["/health"] = 503
        await until(lambda: watch.failures.get(("tier/0", "probe", "status"), 0) == 1)
        assert ready(watch) == [False, True]

    run_on(story, well(), well())


def test_servers_without_a_health_page_are_probed_by_their_models() -> None:
    async def story(first: Target, second: Target, watch: PoolWatch) -> None:
        assert ready(watch) == [True, False]
        assert first.asked["/v1/models"] > 0
        assert watch.failures["tier/1", "probe", "status"] > 0

    run_on(story, Target({"/v1/models": "{}"}), Target())


def test_a_server_that_began_anew_is_noticed() -> None:
    async def story(first: Target, second: Target, watch: PoolWatch) -> None:
        watch.dispatched(0, "old", time.monotonic(), 20, 100, 50)
        watch.tokens(0, "old", time.monotonic(), 5)
        first.pages["/metrics"] = metrics(1, counted=900)
        asked = first.asked["/metrics"]
        await until(lambda: first.asked["/metrics"] > asked + 1)
        first.pages["/metrics"] = metrics(0, counted=2)
        await until(lambda: watch.restarts.tolist() == [1, 0])
        await until(lambda: requests_at(watch, 0) == 0)
        assert watch.in_flight.tolist() == [0, 0]
        watch.ended(0, "old", time.monotonic())

    run_on(story, well(0, counted=800.0), well())


def test_the_key_goes_to_the_instance_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIER_KEY", "very-secret")

    async def story() -> None:
        async with well() as server, well() as elsewhere:
            endpoint = InstanceEndpoint(
                url=server.endpoint.url,
                api_key_env="TIER_KEY",
                metrics_url=f"http://127.0.0.1:{elsewhere.port}/metrics",
            )
            watch = PoolWatch(small_pool(), [endpoint], CONFIG)
            await watch.start()
            await watch.stop()
            assert server.headers["authorization"] == "Bearer very-secret"
            assert elsewhere.asked == {"/metrics": 1}
            assert "authorization" not in elsewhere.headers
            assert "very-secret" not in repr(vars(watch)["_addresses"])

    asyncio.run(story())


def test_another_period_holds_from_the_next_question_on() -> None:
    async def story(first: Target, second: Target, watch: PoolWatch) -> None:
        watch.configure(Watch(period_s=1e-4, timeout_s=1e-4, max_age_s=1e-3))
        await asyncio.sleep(0.05)
        assert ready(watch) == [False, False]
        watch.configure(CONFIG)
        assert ready(watch) == [True, True]

    run_on(story, well(), well())


def test_a_long_period_that_is_taken_back_does_not_keep_servers_out() -> None:
    async def story(first: Target, second: Target, watch: PoolWatch) -> None:
        watch.configure(Watch(period_s=3000.0, timeout_s=0.15, max_age_s=3600.0))
        asked = first.asked["/health"]
        await until(lambda: first.asked["/health"] > asked and second.asked["/health"] > asked)
        await asyncio.sleep(CONFIG.max_age_s)
        watch.configure(CONFIG)
        await until(lambda: ready(watch) == [True, True])
        asked = second.asked["/metrics"]
        await until(lambda: second.asked["/metrics"] > asked + 2)

    run_on(story, well(), well())


def test_one_endpoint_for_each_instance_and_a_key_that_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    endpoint = InstanceEndpoint(url="http://127.0.0.1:1/v1")
    with pytest.raises(ConfigError, match="has 2 instances, and there are 1 endpoints"):
        PoolWatch(small_pool(2), [endpoint], CONFIG)
    monkeypatch.delenv("NO_SUCH_KEY", raising=False)
    lacking = InstanceEndpoint(url="http://127.0.0.1:1/v1", api_key_env="NO_SUCH_KEY")
    with pytest.raises(ConfigError, match="NO_SUCH_KEY"):
        PoolWatch(small_pool(), [lacking], CONFIG)


def test_a_view_at_no_time_is_refused() -> None:
    watch = PoolWatch(small_pool(), [InstanceEndpoint(url="http://127.0.0.1:1/v1")], CONFIG)
    with pytest.raises(EngineError):
        watch.view(float("nan"))
    assert watch.view(5.0).telemetry.free_blocks.tolist() == [400]


def test_an_event_after_the_look_at_the_clock_does_not_make_a_state_of_the_future() -> None:
    watch = PoolWatch(
        small_pool(), [InstanceEndpoint(url="http://127.0.0.1:1/v1")], CONFIG, clock=lambda: 0.0
    )
    watch.dispatched(0, "r", 10.0, 20, 100, 50)
    watch.tokens(0, "r", 10.05, 1)
    sight = watch.view(10.049)
    assert sight.snapshots[0].stamp_s == sight.now_s == 10.049
    assert (sight.snapshots[0].step_start_s <= 10.049).all()
    assert sight.age_s.tolist() == [0.0]
