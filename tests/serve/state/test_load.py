"""What a shadow counts up to is what its snapshot, counted row by row, counts up to."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rbx.engine import snapshot_columns as snap
from rbx.engine.instance_profile import InstanceProfile
from rbx.engine.instance_snapshot import InstanceSnapshot
from rbx.engine.snapshot_counts import pool_telemetry
from rbx.errors import EngineError
from rbx.serve.state.shadow import Shadow
from tests.engine.scenes import random_tier, random_workload
from tests.serve.state.router_view import Link, RouterView, Traffic
from tests.serve.state.test_shadow import shadow
from tests.serve.state.test_shadow_scripts import EVENTS, Event, build, random_event


def counted(seen: InstanceSnapshot) -> list[int]:
    """Running, waiting, pending prefill and decode, context of the decodes, free blocks."""
    told = pool_telemetry([seen], np.zeros(1, dtype=np.int64))
    columns = (
        told.running,
        told.waiting,
        told.pending_prefill_tokens,
        told.pending_decode_tokens,
        told.decode_context_tokens,
        told.free_blocks,
    )
    return [int(column[0]) for column in columns]


def compare(one: Shadow, now_s: float, seen: Counter[str]) -> None:
    load = one.load(now_s)
    told = None if load is None else load.tolist()
    seen["asked"] += 1
    snapshot = one.newest(now_s).snapshot
    if told is None:
        seen["to be corrected"] += 1
        return
    assert told == counted(snapshot)
    seen["waiting"] += told[1] > 0
    seen["chunk"] += bool(snapshot.requests[:, snap.PREFILLING].any())
    seen["many"] += told[0] > 3


def play(one: Shadow, longest: int, events: list[Event], seen: Counter[str]) -> None:
    """Any order of events, and a look at several times after each."""
    now_s, shown = 1.0, Counter[str]()
    for kind, name, small, count, share, step_s in events:
        now_s = max(0.0, now_s + step_s)
        if kind == "dispatched":
            prompt = min(1 + 3 * count, longest - 1)
            one.dispatched(name, now_s, prompt, small, count, streams=small % 3 > 0)
        elif kind in ("tokens", "next", "all"):
            shown[name] += 1
            one.tokens(name, shown[name] if kind == "next" else count, now_s)
        elif kind == "gauges":
            one.gauges(small % 4, count % 5, share, now_s)
        elif kind != "snapshot":
            one.finished(name, now_s)
            shown[name] = 0
        for later_s in (0.0, 0.0, 1e-4, 0.03, 0.5) if step_s != 0.02 else (0.0,):
            compare(one, now_s + later_s, seen)
            now_s += later_s


@settings(max_examples=200, deadline=None)
@given(EVENTS, st.integers(0, 2**32 - 1), st.sampled_from([0.0, 0.004]), st.sampled_from([0.0, 0.03]))
def test_any_script_counts_alike(events: list[Event], seed: int, token_s: float, dispatch_s: float) -> None:
    tier = random_tier(np.random.default_rng(seed), exact=False)
    play(build(tier, token_s, dispatch_s), tier.limits.max_model_len, events, Counter())


def test_long_scripts_are_mostly_counted_without_a_snapshot() -> None:
    seen: Counter[str] = Counter()
    for seed in range(100):
        rng = np.random.default_rng(seed)
        tier = random_tier(rng, exact=False)
        events = [random_event(rng) for _ in range(60)]
        play(build(tier, 0.0, 0.0), tier.limits.max_model_len, events, seen)
    assert seen["asked"] > 10_000
    assert seen["to be corrected"] < 0.2 * seen["asked"], seen
    assert min(seen[name] for name in ("to be corrected", "waiting", "chunk", "many")) > 50, seen


def test_real_traffic_is_counted_without_a_snapshot() -> None:
    seen: Counter[str] = Counter()
    for seed in range(20):
        rng = np.random.default_rng(seed)
        server = random_tier(rng, exact=False)
        work = random_workload(rng, [server], 50, exact=False)
        order = np.argsort(work.at_s, kind="stable")
        nobody = np.zeros(len(order), dtype=np.bool_)
        columns = work.prompt[order], work.output[order], work.predicted[order]
        traffic = Traffic(0.1 + work.at_s[order], *columns, nobody)
        view = RouterView(server, traffic, Link(), Shadow(InstanceProfile.of(server)), rng)
        for k in view.arrivals():
            compare(view.shadow, float(traffic.at_s[k]), seen)
        view.finish()
    assert seen["asked"] == 1000
    assert seen["to be corrected"] < 50, seen
    assert min(seen["waiting"], seen["many"]) > 20, seen


def test_times_before_the_news_are_left_to_the_snapshot() -> None:
    one = shadow()
    one.dispatched("a", 10.0, 20, 10, 5)
    assert one.load(9.9) is None
    assert one.load(float("nan")) is None
    assert one.load(float("inf")) is None
    with pytest.raises(EngineError, match="finite"):
        one.newest(float("inf"))
    assert one.load(10.0) is not None
    assert one.load(9.99) is None  # what was told of a later moment can't be taken back
