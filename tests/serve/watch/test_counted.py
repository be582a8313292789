"""A view without snapshots says what the whole view says, whatever has happened at the instances."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import fields
from pathlib import Path

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from rbx.config.endpoints import InstanceEndpoint
from rbx.config.gateway import Watch
from rbx.serve.watch.instance import SAME_MOMENT_S
from rbx.serve.watch.pool_watch import PoolWatch
from rbx.serve.watch.sight import PoolSight
from tests.serve.plugin.servers import publish, state_file
from tests.serve.watch.pages import metrics, small_pool

INSTANCES = 3
NOWHERE = InstanceEndpoint(url="http://127.0.0.1:1/v1")
CONFIG = Watch(period_s=0.5, timeout_s=1.0, max_age_s=3.0)
NAMES = ("a", "b", "c", "d", "e", "f")
KINDS = ("dispatched", "dispatched", "tokens", "tokens", "tokens", "ended", "page", "restart", "nothing")
# Never within a moment, in which an earlier answer may be given; back for news that is late, or far too late.
STEPS_S = (2 * SAME_MOMENT_S, 0.01, 0.03, 0.1, 0.7, 2.0, 4.0, -0.3, -5.0)

Event = tuple[str, str, int, int, float]
EVENTS = st.lists(
    st.tuples(
        st.sampled_from(KINDS),
        st.sampled_from(NAMES),
        st.integers(0, INSTANCES - 1),
        st.integers(0, 12),
        st.sampled_from(STEPS_S),
    ),
    min_size=1,
    max_size=50,
)


def watch_of() -> PoolWatch:
    return PoolWatch(small_pool(INSTANCES), [NOWHERE] * INSTANCES, CONFIG, clock=lambda: 100.0)


def assert_same(counted: PoolSight, whole: PoolSight) -> None:
    assert counted.snapshots == ()
    assert (counted.now_s, counted.rungs) == (whole.now_s, whole.rungs)
    for field in fields(whole.telemetry):
        told, right = getattr(counted.telemetry, field.name), getattr(whole.telemetry, field.name)
        assert told.dtype == right.dtype
        assert told.tolist() == right.tolist(), field.name
    for name in ("age_s", "ready", "in_flight"):
        assert getattr(counted, name).tolist() == getattr(whole, name).tolist(), name
    for told, right in zip(counted.unseen, whole.unseen, strict=True):
        assert told.dispatched_s.tolist() == right.dispatched_s.tolist()
        assert told.requests.tolist() == right.requests.tolist()


def tell(watch: PoolWatch, event: Event, shown: Counter[tuple[int, str]], now_s: float) -> None:
    kind, name, i, count, _ = event
    if kind == "dispatched":
        watch.dispatched(i, name, now_s, 5 + 40 * count, 20, 3 * count)
    elif kind == "tokens":
        shown[i, name] += 1 + count // 12
        watch.tokens(i, name, now_s, shown[i, name])
    elif kind == "ended":
        watch.ended(i, name, now_s)
        shown[i, name] = 0
    elif kind in ("page", "restart"):
        started_s = now_s if kind == "restart" else 1.0
        watch.instance(i).page(metrics(count % 4, count % 3, count / 40, started_s=started_s), now_s, now_s)
        watch.instance(i).probed(now_s, answered=count % 2 == 0)


def play(events: list[Event], seen: Counter[str]) -> None:
    """One watch is always asked for snapshots, another always for counts, a third for either."""
    whole, counted, mixed = watch_of(), watch_of(), watch_of()
    shown = [Counter[tuple[int, str]]() for _ in range(3)]
    now_s = 100.0
    for k, event in enumerate(events):
        told_s = now_s + event[-1]
        now_s = max(now_s + 2 * SAME_MOMENT_S, told_s)
        for watch, each in zip((whole, counted, mixed), shown, strict=True):
            tell(watch, event, each, told_s)
        right = whole.view(now_s)
        assert_same(counted.view(now_s, snapshots=False), right)
        if k % 3:
            assert_same(mixed.view(now_s, snapshots=False), right)
        else:
            mixed.view(now_s)
        seen["running"] += int(right.telemetry.running.sum())
        seen["waiting"] += int(right.telemetry.waiting.sum())
        seen["restarts"] += int(whole.restarts.sum())


@settings(max_examples=150, deadline=None)
@given(EVENTS)
def test_any_script_is_seen_alike(events: list[Event]) -> None:
    play(events, Counter())


def test_long_scripts_reach_what_matters() -> None:
    rng, seen = np.random.default_rng(0), Counter[str]()
    for _ in range(30):
        play(
            [
                (
                    str(rng.choice(KINDS)),
                    str(rng.choice(NAMES)),
                    int(rng.integers(INSTANCES)),
                    int(rng.integers(13)),
                    float(rng.choice(STEPS_S)),
                )
                for _ in range(60)
            ],
            seen,
        )
    assert min(seen[name] for name in ("running", "waiting", "restarts")) > 100, seen


def test_a_published_state_is_counted_as_it_is(tmp_path: Path) -> None:
    """Its own blocks, and what it does not show yet, are in the counts as in the snapshot."""
    file = state_file(tmp_path)
    watch = PoolWatch(small_pool(2), [NOWHERE.model_copy(update={"state": tmp_path}), NOWHERE], CONFIG)
    local = watch._local[0]
    assert local is not None
    local.open()
    now_s = time.monotonic()
    publish(file, 1, now_s, waiting=3)
    watch.dispatched(0, "not shown", now_s, 10, 20, 5)
    counted, whole = watch.view(now_s, snapshots=False), watch.view(now_s)
    file.close()
    assert_same(counted, whole)
    assert whole.rungs == ("state", "shadow")
    assert counted.telemetry.waiting.tolist() == [3, 0]
    assert counted.telemetry.total_blocks.tolist() == [40, 400]
    assert [len(each.requests) for each in counted.unseen] == [1, 0]
