"""What a shadow makes of dispatches, tokens, ends and gauges."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from rbx.engine import snapshot_columns as snap
from rbx.engine.instance_profile import InstanceProfile, StepCoefficients
from rbx.engine.instance_snapshot import InstanceSnapshot
from rbx.engine.snapshot_export import export_snapshot
from rbx.errors import EngineError
from rbx.heads.bea.prediction import Probe
from rbx.heads.bea.ttft import predict_ttft
from rbx.serve.state.evidence import TypicalRequest
from rbx.serve.state.gauges import MOST_REQUESTS
from rbx.serve.state.shadow import MOST_QUEUED_OTHERS, Shadow, ShadowSettings
from rbx.serve.state.source import StateFlag
from tests.engine.scenes import random_tier, random_workload, tier
from tests.serve.state.router_view import Link, RouterView, Traffic

# Steps of 10 ms whatever is in them; 512 tokens a batch, blocks of 16.
PLAIN = tier(b0_s=0.01, b1_s=0.0, b2_s=0.0, b3_s=0.0, async_scheduling=False)
NO_GAUGES = Link(gauges_every_s=1e9)


def shadow(settings: ShadowSettings | None = None, **limits: int) -> Shadow:
    limited = PLAIN.limits.model_copy(update=limits)
    profile = InstanceProfile.of(PLAIN.model_copy(update={"limits": limited}))
    return Shadow(profile, settings or ShadowSettings())


def column(seen: InstanceSnapshot, number: int) -> list[int]:
    return [int(value) for value in seen.requests[:, number]]


def test_a_router_alone_with_an_instance_it_knows_sees_it_exactly() -> None:
    """Order, progress, blocks, batches in flight: all as the simulated engine itself exports them."""
    seen: Counter[str] = Counter()
    for seed in range(100):
        rng = np.random.default_rng(seed)
        server = random_tier(rng, exact=False)
        load = random_workload(rng, [server], int(rng.integers(5, 60)), exact=False)
        order = np.argsort(load.at_s, kind="stable")
        at_s = 0.1 + load.at_s[order] * float(rng.choice([1.0, 5.0]))
        nobody = np.zeros(len(order), dtype=np.bool_)
        traffic = Traffic(at_s, load.prompt[order], load.output[order], load.predicted[order], nobody)
        profile = InstanceProfile.of(server)
        view = RouterView(server, traffic, NO_GAUGES, Shadow(profile), rng)
        for k in view.arrivals():
            exact, guess = export_snapshot(view.engine, 0, profile), view.shadow.snapshot(float(at_s[k]))
            assert (guess.running, guess.free_blocks) == (exact.running, exact.free_blocks), seed
            assert guess.requests.tolist() == exact.requests.tolist(), seed
            assert guess.steps.tolist() == exact.steps.tolist(), seed
            np.testing.assert_allclose(guess.step_start_s, exact.step_start_s, rtol=0.0, atol=1e-9)
            seen["all"] += 1
            seen["chunk"] += int(exact.requests[:, snap.PREFILLING].sum())
            seen["backlog"] += len(exact.requests) > exact.running
            seen["batch ahead"] += len(exact.steps) == 2
            seen["preempted"] += bool((exact.requests[:, snap.PREEMPTIONS] > 0).any())
        view.finish()
        assert view.shadow.outstanding == 0
    assert seen["all"] > 3000
    assert min(seen[name] for name in ("chunk", "backlog", "batch ahead", "preempted")) > 50, seen


@pytest.mark.parametrize(("plain", "scale"), [(0.5, 1.0), (0.5, 1.5), (1.0, 1.0)])
def test_plain_answers_are_followed_by_the_clock_and_by_the_streams_beside_them(
    plain: float, scale: float
) -> None:
    """They show nothing before their end; right step times, or streams that tell, make up for that."""
    server, rng = tier(max_num_seqs=16), np.random.default_rng(5)
    right = InstanceProfile.of(server)
    cost = right.coefficients
    wrong = StepCoefficients(cost.feature_set, "wrong", tuple(scale * value for value in cost.seconds))
    traffic = Traffic.random(rng, 8.0, 300)
    traffic = replace(traffic, output=np.minimum(traffic.output, 300))
    view = RouterView(server, traffic, Link(), Shadow(replace(right, coefficients=wrong)), rng, plain)
    alike, backlog = [], 0
    for k in view.arrivals():
        exact, guess = export_snapshot(view.engine, 0, right), view.shadow.snapshot(float(traffic.at_s[k]))
        alike.append(guess.requests.tolist() == exact.requests.tolist())
        backlog += len(exact.requests) > exact.running
    view.finish()
    assert view.shadow.outstanding == 0
    assert np.mean(alike) > 0.9
    assert backlog > 50


def test_a_plain_answer_is_not_taken_to_wait_because_it_shows_nothing() -> None:
    seen = shadow()
    seen.dispatched("plain", 1.0, 100, 500, 200, streams=False)
    seen.dispatched("stream", 1.0, 100, 500, 200)
    for k in range(1, 101):
        seen.tokens("stream", k, 1.0 + 0.01 * k)
    now = seen.snapshot(2.0)
    assert now.running == 2
    assert column(now, snap.GENERATED) == [100, 100]


def test_a_plain_answer_alone_goes_on_until_it_ends_or_is_about_to() -> None:
    seen = shadow()
    seen.dispatched("plain", 1.0, 100, 50, 40, streams=False)
    assert column(seen.snapshot(1.305), snap.GENERATED) == [30]
    late = seen.snapshot(9.0)  # its cap is reached by the clock, and no end was told
    assert (late.running, column(late, snap.GENERATED)) == (1, [49])
    seen.finished("plain", 9.0)
    assert seen.snapshot(9.1).running == 0


@pytest.mark.parametrize("scale", [0.5, 2.0])
def test_step_times_that_are_wrong_do_not_carry_a_shadow_away(scale: float) -> None:
    """What decodes, what waits and every token count stay right; only the running step's price is wrong."""
    server = tier(max_num_seqs=8)
    rng = np.random.default_rng(1)
    traffic = Traffic.random(rng, 8.0, 200)
    traffic = replace(traffic, output=np.minimum(traffic.output, 300))
    right = InstanceProfile.of(server)
    cost = right.coefficients
    wrong = StepCoefficients(cost.feature_set, "wrong", tuple(scale * value for value in cost.seconds))
    view = RouterView(server, traffic, NO_GAUGES, Shadow(replace(right, coefficients=wrong)), rng)
    same, backlog = [], 0
    for k in view.arrivals():
        exact = export_snapshot(view.engine, 0, right)
        guess = view.shadow.snapshot(float(traffic.at_s[k]))
        same.append(guess.requests.tolist() == exact.requests.tolist())
        backlog += len(exact.requests) > exact.running
    assert np.mean(same) > 0.95
    assert backlog > 50


def test_delays_that_are_told_cost_little() -> None:
    """One to two milliseconds of network against steps of ten: predictions stay those of the exact state."""
    server, rng = tier(max_num_seqs=16), np.random.default_rng(3)
    profile, link = InstanceProfile.of(server), Link(dispatch_s=1e-3, token_s=1e-3, jitter_s=1e-3)
    traffic = Traffic.random(rng, 4.0, 200)
    traffic = replace(traffic, output=np.minimum(traffic.output, 400))
    view = RouterView(server, traffic, link, Shadow(profile, ShadowSettings(1e-3, 1e-3)), rng)
    off = []
    for k in view.arrivals():
        probe, enters_s = Probe(int(traffic.prompt[k])), float(traffic.at_s[k]) + link.dispatch_s
        exact, guess = export_snapshot(view.engine, 0, profile), view.shadow.snapshot(float(traffic.at_s[k]))
        exact_s, guess_s = (predict_ttft(seen, probe, now_s=enters_s).seconds for seen in (exact, guess))
        off.append(abs(guess_s / exact_s - 1.0))
    view.finish()
    assert view.shadow.outstanding == 0
    assert np.mean(off) < 0.03
    assert max(off) > 0.0


def test_a_step_is_over_when_its_token_is_seen_and_not_before() -> None:
    seen = shadow()
    seen.dispatched("a", 1.0, 100, 50, 40)
    late = seen.snapshot(1.9)  # the clock alone would have given 90 tokens
    assert (column(late, snap.GENERATED), column(late, snap.YIELDS)) == ([0], [1])
    seen.tokens("a", 1, 2.0)
    after = seen.snapshot(2.004)
    assert (column(after, snap.GENERATED), after.step_start_s.tolist()) == ([1], [2.0])


def test_a_token_that_comes_early_ends_the_prefill() -> None:
    seen = shadow()
    seen.dispatched("a", 1.0, 2000, 40)  # four steps of 512 tokens
    assert column(seen.snapshot(1.005), snap.PREFILLING) == [1]
    seen.tokens("a", 1, 1.012)
    after = seen.snapshot(1.013)
    assert (column(after, snap.PREFILLING), column(after, snap.GENERATED)) == ([0], [1])
    assert after.free_blocks == 400 - 126


def test_a_request_that_jumps_the_queue_of_the_twin_is_let_in() -> None:
    """The twin holds b back for want of a seat; its token says that it runs."""
    seen = shadow(max_num_seqs=2)
    for name in ("a", "b", "c"):
        seen.dispatched(name, 1.0, 100, 50)
    seen.tokens("a", 1, 1.01)
    seen.tokens("c", 1, 1.01)
    reading = seen.newest(1.012)
    assert set(reading.request_ids[: reading.snapshot.running]) >= {"c"}
    assert sorted(reading.request_ids) == ["a", "b", "c"]


def test_several_tokens_at_once_are_several_steps() -> None:
    seen = shadow()
    seen.dispatched("a", 1.0, 100, 50)
    seen.dispatched("b", 1.0, 100, 50)
    for at_s, total in ((1.01, 1), (1.05, 5)):
        for name in ("a", "b"):
            seen.tokens(name, total, at_s)
    after = seen.snapshot(1.055)
    assert (column(after, snap.GENERATED), after.step_start_s.tolist()) == ([5, 5], [1.05])


def test_an_end_frees_the_seat_for_the_very_next_batch() -> None:
    seen = shadow(max_num_seqs=1)
    seen.dispatched("a", 1.0, 100, 50)
    seen.dispatched("b", 1.0, 200, 50)
    seen.tokens("a", 1, 1.01)
    seen.tokens("a", 2, 1.02)
    seen.finished("a", 1.0203)
    reading = seen.newest(1.021)
    assert (reading.request_ids, reading.snapshot.running) == (("b",), 1)
    assert reading.snapshot.step_start_s.tolist() == [1.02]
    assert reading.snapshot.free_blocks == 400 - 13


@pytest.mark.parametrize("end", ["cancelled", "failed", "finished"])
def test_who_is_given_up_leaves_from_wherever_he_is(end: str) -> None:
    seen = shadow(max_num_seqs=2)
    for name, prompt in (("decodes", 100), ("in its prompt", 2000), ("waits", 50)):
        seen.dispatched(name, 1.0, prompt, 40)
    seen.tokens("decodes", 1, 1.01)
    assert seen.newest(1.012).request_ids == ("decodes", "in its prompt", "waits")
    for name, rest in (("in its prompt", {"decodes", "waits"}), ("waits", {"decodes"})):
        getattr(seen, end)(name, 1.013)
        assert set(seen.newest(1.014).request_ids) == rest
    getattr(seen, end)("decodes", 1.015)
    seen.dispatched("next", 1.03, 60, 40)
    assert seen.newest(1.04).request_ids == ("next",)
    assert seen.outstanding == 1


def test_others_show_as_typical_requests_that_hold_the_rest_of_the_cache() -> None:
    seen = shadow(ShadowSettings(typical=TypicalRequest(300, 100)))
    seen.dispatched("a", 1.0, 160, 50)
    seen.tokens("a", 1, 1.01)
    seen.gauges(3, 2, 90 / 400, 1.015)  # a holds 11 blocks, so the other two hold 39 each
    reading = seen.newest(1.018)
    assert reading.flags & StateFlag.FOREIGN
    assert Counter(reading.request_ids) == {"a": 1, "": 4}
    assert reading.snapshot.running == 3
    blocks = dict(zip(reading.request_ids, column(reading.snapshot, snap.BLOCKS), strict=False))
    assert blocks["a"] == 11
    held = reading.snapshot.requests[: reading.snapshot.running, snap.BLOCKS]
    assert sorted(held.tolist()) == [11, 39, 39]
    assert reading.snapshot.free_blocks == 400 - 89
    assert column(reading.snapshot, snap.PROMPT)[3:] == [300, 300]
    seen.gauges(1, 0, 11 / 400, 1.019)
    reading = seen.newest(1.0195)
    assert (reading.request_ids, reading.flags) == (("a",), StateFlag.GUESSED)


def test_our_own_requests_are_not_taken_for_those_of_others() -> None:
    """A scrape may count a request whose end is already known here, and one on its way not at all."""
    seen = shadow()
    seen.dispatched("a", 1.0, 100, 50)
    seen.tokens("a", 1, 1.01)
    seen.finished("a", 1.02)
    seen.gauges(1, 0, 0.02, 1.05)
    assert seen.newest(1.06).request_ids == ()
    seen.gauges(1, 0, 0.02, 1.25)
    assert seen.newest(1.26).request_ids == ("",)


def test_free_blocks_follow_a_gauge_that_contradicts() -> None:
    seen = shadow()
    seen.dispatched("a", 1.0, 160, 50)
    seen.tokens("a", 1, 1.01)
    seen.gauges(1, 0, 12 / 400, 1.015)
    assert seen.newest(1.016).flags == StateFlag.GUESSED
    seen.gauges(1, 0, 100 / 400, 1.017)
    reading = seen.newest(1.018)
    assert (reading.flags, reading.snapshot.free_blocks) == (
        StateFlag.GUESSED | StateFlag.BLOCKS_CORRECTED,
        300,
    )
    seen.gauges(1, 0, 1.0, 1.0185)  # a full context must stay possible, or nobody would ever get in
    assert seen.newest(1.019).snapshot.free_blocks == 128 - 11


def test_disorder_is_ignored_and_counted() -> None:
    seen = shadow()
    seen.tokens("nobody", 3, 1.0)
    seen.finished("nobody", 1.0)
    seen.dispatched("a", 1.0, 100, 50)
    seen.dispatched("a", 1.1, 100, 50)
    seen.tokens("a", 2, 1.2)
    seen.tokens("a", 1, 1.2)
    seen.tokens("a", 2, 1.2)
    assert seen.ignored == {
        "tokens of an unknown request": 1,
        "end of an unknown request": 1,
        "dispatched twice": 1,
        "token count went back": 1,
    }
    assert seen.newest(1.21).request_ids == ("a",)


def test_a_clock_that_jumps_back_keeps_the_requests() -> None:
    seen = shadow(max_num_seqs=1)
    for name in ("a", "b"):
        seen.dispatched(name, 100.0, 100, 50)
    seen.tokens("a", 1, 100.01)
    assert seen.snapshot(99.5).stamp_s == 100.01  # late news, no jump
    reading = seen.newest(3.0)
    assert (reading.request_ids, reading.snapshot.stamp_s, reading.snapshot.running) == (("a", "b"), 3.0, 1)
    assert column(reading.snapshot, snap.GENERATED) == [1, 0]
    assert seen.ignored == {"clock jumped back": 1}
    seen.tokens("a", 2, 3.01)
    assert column(seen.snapshot(3.015), snap.GENERATED) == [2, 0]


def test_versions_count_up() -> None:
    seen = shadow()
    assert [seen.snapshot(1.0).version, seen.snapshot(1.0).version] == [1, 2]


@pytest.mark.parametrize("at_s", [float("nan"), float("inf"), -1.0])
def test_a_time_that_is_none_is_refused(at_s: float) -> None:
    seen = shadow()
    for event in (
        lambda: seen.dispatched("a", at_s, 10, 5),
        lambda: seen.tokens("a", 1, at_s),
        lambda: seen.finished("a", at_s),
        lambda: seen.gauges(0, 0, 0.0, at_s),
        lambda: seen.snapshot(at_s),
    ):
        with pytest.raises(EngineError, match="the time of an event is"):
            event()
    assert seen.outstanding == 0


@pytest.mark.parametrize(
    ("running", "waiting", "kv_usage", "words"),
    [
        (-1, 0, 0.1, "running is -1"),
        (0, -2, 0.1, "waiting -2"),
        (0, 10**300, 0.1, "from 0 to 100,000"),
        (100_001, 0, 0.1, "running is 100001"),
        (2.5, 0, 0.1, "running is 2.5"),
        (0, float("nan"), 0.1, "waiting nan"),
        (0, 0, float("nan"), "kv_usage is nan"),
        (0, 0, 1.1, "kv_usage is 1.1"),
    ],
)
def test_gauges_that_cannot_be_are_refused(running: int, waiting: int, kv_usage: float, words: str) -> None:
    seen = shadow()
    with pytest.raises(EngineError, match=words):
        seen.gauges(running, waiting, kv_usage, 1.0)
    assert seen.newest(1.0).request_ids == ()


def test_rows_of_others_are_bounded_and_what_is_left_out_is_counted() -> None:
    seen = shadow()
    seen.dispatched("a", 1.0, 100, 50)
    seen.tokens("a", 1, 1.01)
    seen.gauges(3, 10_000, 0.5, 1.015)
    assert seen.ignored == {}
    seen.gauges(3, MOST_REQUESTS, 0.5, 1.016)
    reading = seen.newest(1.017)
    assert Counter(reading.request_ids) == {"a": 1, "": 2 + MOST_QUEUED_OTHERS}
    assert reading.snapshot.running == 3
    assert seen.ignored == {"waiting requests of others beyond the most": 1}


def test_a_negative_count_of_tokens_is_refused() -> None:
    with pytest.raises(EngineError, match="generated_total of request 'a' is -1"):
        shadow().tokens("a", -1, 1.0)


@pytest.mark.parametrize("name", ["dispatch_delay_s", "token_delay_s", "gauge_lag_s", "reorder_s"])
@pytest.mark.parametrize("value", [-0.1, float("nan"), float("inf")])
def test_settings_out_of_range_are_refused(name: str, value: float) -> None:
    changed: dict[str, Any] = {name: value}
    with pytest.raises(EngineError, match=f"{name} is"):
        ShadowSettings(**changed)


@pytest.mark.parametrize("name", ["prompt_tokens", "output_tokens"])
def test_a_typical_request_has_tokens(name: str) -> None:
    with pytest.raises(EngineError, match=f"{name} of a typical request is 0"):
        replace(TypicalRequest(), **{name: 0})
