"""The breaker's rules, one by one and over random histories."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rbx.config.gateway import BreakerConfig
from rbx.serve.upstream.breaker import Breaker, Breakers

CONFIG = BreakerConfig(failures=3, no_progress_s=10.0, open_s=1.0, max_open_s=8.0)


def state(breaker: Breaker) -> str:
    return breaker.state


def opened(config: BreakerConfig = CONFIG, at_s: float = 0.0) -> Breaker:
    breaker = Breaker(config)
    for _ in range(config.failures):
        breaker.failed(at_s, breaker.sent(at_s))
    return breaker


def test_it_opens_after_failures_in_a_row() -> None:
    breaker = Breaker(CONFIG)
    for outcome in ("failed", "failed", "succeeded", "failed", "failed"):
        getattr(breaker, outcome)(0.0, breaker.sent(0.0))
        assert breaker.allows(0.0)
    breaker.failed(0.0, breaker.sent(0.0))
    assert state(breaker) == "open"
    assert breaker.retry_at_s == 1.0
    assert not breaker.allows(0.999)


def test_waiting_in_vain_counts_only_where_nobody_got_a_token_meanwhile() -> None:
    breaker = Breaker(CONFIG)
    other = breaker.sent(0.0)
    for k in range(10):
        sent_s = float(k)
        ticket = breaker.sent(sent_s)
        breaker.progress(sent_s + 0.5, other)
        breaker.failed(sent_s + 1.0, ticket, waited_since_s=sent_s)
        assert state(breaker) == "closed"
    for _ in range(3):
        assert state(breaker) == "closed"
        breaker.failed(12.0, breaker.sent(11.0), waited_since_s=11.0)
    assert state(breaker) == "open"


def test_a_probe_that_waits_while_others_get_tokens_makes_room_for_the_next() -> None:
    breaker = opened()
    probe = breaker.sent(1.0)
    assert not breaker.allows(1.5)
    breaker.progress(1.5, 1)  # a token of a request from before
    breaker.failed(2.0, probe, waited_since_s=1.0)
    assert state(breaker) == "half-open"
    breaker.failed(3.0, breaker.sent(2.0), waited_since_s=2.0)
    assert state(breaker) == "open"


def test_one_probe_decides() -> None:
    breaker = opened()
    assert breaker.allows(1.0)
    probe = breaker.sent(1.0)
    assert state(breaker) == "half-open"
    assert not breaker.allows(5.0)
    breaker.succeeded(5.0, probe)
    assert state(breaker) == "closed"
    assert breaker.allows(5.0)


def test_each_failed_probe_doubles_the_open_time_up_to_the_bound() -> None:
    breaker = opened()
    open_s = []
    now_s = 0.0
    for _ in range(6):
        open_s.append(breaker.retry_at_s - now_s)
        now_s = breaker.retry_at_s
        breaker.failed(now_s, breaker.sent(now_s))
    assert open_s == [1.0, 2.0, 4.0, 8.0, 8.0, 8.0]


def test_an_instance_that_works_now_and_then_is_asked_ever_less_often() -> None:
    breaker = opened()
    now_s = 0.0
    for open_s in (1.0, 2.0, 4.0, 8.0, 8.0):
        assert breaker.retry_at_s - now_s == open_s
        now_s = breaker.retry_at_s
        breaker.succeeded(now_s, breaker.sent(now_s))
        for _ in range(3):
            breaker.failed(now_s, breaker.sent(now_s))
    now_s = breaker.retry_at_s
    breaker.succeeded(now_s, breaker.sent(now_s))
    now_s += 8.0  # as long as it had been open
    for _ in range(3):
        breaker.failed(now_s, breaker.sent(now_s))
    assert breaker.retry_at_s - now_s == 1.0


def test_requests_from_before_have_no_say_in_the_probe() -> None:
    breaker = Breaker(CONFIG)
    old = [breaker.sent(0.0) for _ in range(6)]
    for ticket in old[:3]:
        breaker.failed(0.0, ticket)
    probe = breaker.sent(1.0)
    breaker.succeeded(1.1, old[3])
    assert state(breaker) == "half-open"
    breaker.failed(1.2, old[4])
    assert state(breaker) == "half-open"
    breaker.succeeded(1.3, probe)
    assert state(breaker) == "closed"
    for _ in range(3):
        breaker.failed(1.4, old[5])
    assert state(breaker) == "closed"


def test_a_request_sent_against_its_word_has_no_say() -> None:
    breaker = opened()
    ticket = breaker.sent(0.5)
    breaker.succeeded(0.6, ticket)
    assert state(breaker) == "open"
    breaker.sent(1.0)
    second = breaker.sent(1.0)
    breaker.failed(1.1, second)
    assert state(breaker) == "half-open"


def test_work_without_tokens_opens_it() -> None:
    breaker = Breaker(CONFIG)
    breaker.sent(0.0)
    breaker.check(9.5, has_work=True)
    assert state(breaker) == "closed"
    breaker.progress(9.5)
    breaker.check(19.4, has_work=True)
    assert state(breaker) == "closed"
    breaker.check(19.5, has_work=True)
    assert state(breaker) == "open"


def test_what_the_server_counts_is_progress_too() -> None:
    breaker = Breaker(CONFIG)
    breaker.sent(0.0)
    breaker.check(15.0, has_work=True, counted_s=5.5)
    assert state(breaker) == "closed"
    breaker.check(15.5, has_work=True, counted_s=5.5)
    assert state(breaker) == "open"
    assert breaker.allows(16.5)
    breaker.sent(16.5)
    breaker.check(27.0, has_work=True, counted_s=17.5)  # a long plain answer probes it
    assert state(breaker) == "half-open"
    breaker.check(27.5, has_work=True, counted_s=17.5)
    assert state(breaker) == "open"


def test_idleness_is_no_lack_of_progress() -> None:
    breaker = Breaker(CONFIG)
    breaker.succeeded(0.5, breaker.sent(0.0))
    breaker.check(100.0, has_work=False)
    breaker.sent(200.0)
    breaker.check(209.0, has_work=True)
    assert state(breaker) == "closed"
    breaker.check(210.0, has_work=True)
    assert state(breaker) == "open"


def test_a_probe_that_never_ends_has_failed() -> None:
    breaker = opened()
    probe = breaker.sent(1.0)
    breaker.progress(5.0)  # tokens of older requests are no word on the probe
    breaker.progress(5.0, probe)
    breaker.check(14.9, has_work=True)
    assert state(breaker) == "half-open"
    breaker.check(15.0, has_work=True)
    assert state(breaker) == "open"
    assert breaker.retry_at_s == 17.0


def test_an_abandoned_probe_makes_room_for_another() -> None:
    breaker = opened()
    breaker.abandoned(1.5, breaker.sent(1.0))
    assert state(breaker) == "half-open"
    assert breaker.allows(1.5)
    breaker.sent(1.6)
    breaker.check(1.7, has_work=False)  # nobody told how it ended
    assert breaker.allows(1.7)


def test_new_rules_count_from_then_on() -> None:
    breaker = Breaker(CONFIG)
    breaker.failed(0.0)
    breaker.config = CONFIG.model_copy(update={"failures": 2, "open_s": 3.0})
    breaker.failed(0.0)
    assert breaker.retry_at_s == 3.0


EVENTS = st.lists(
    st.tuples(
        st.floats(0.0, 20.0),
        st.sampled_from(["sent", "progress", "succeeded", "failed", "abandoned", "check"]),
        st.integers(0, 10),
        st.booleans(),
    ),
    max_size=60,
)
CONFIGS = st.builds(
    BreakerConfig,
    failures=st.integers(1, 4),
    no_progress_s=st.floats(0.5, 20.0),
    open_s=st.floats(0.1, 5.0),
    max_open_s=st.floats(0.1, 20.0),
)


@given(CONFIGS, EVENTS, st.booleans())
def test_any_history(config: BreakerConfig, events: list[tuple[float, str, int, bool]], tells: bool) -> None:
    """Never two probes, open times within their bounds, and a way back from every state."""
    breaker = Breaker(config)
    now_s, under_way = 0.0, list[int]()
    probes = 0
    for gap_s, what, which, has_work in events:
        now_s += gap_s
        before = breaker.state
        if before == "open":
            assert breaker.allows(now_s) == (now_s >= breaker.retry_at_s)
        ticket = under_way[which % len(under_way)] if under_way else None
        if what == "sent":
            if breaker.allows(now_s):
                probes += breaker.state == "half-open"
                assert probes <= 1
                under_way.append(breaker.sent(now_s))
        elif what == "check":
            breaker.check(now_s, has_work)
            probes = probes if has_work else 0
        elif ticket is not None:
            getattr(breaker, what)(now_s, ticket if tells else None)
            if what != "progress":
                under_way.remove(ticket)
        if breaker.state == "open" and (before != "open" or breaker.retry_at_s > now_s):
            assert breaker.retry_at_s - now_s <= max(config.open_s, config.max_open_s) + 1e-9
        if breaker.state == "open" and before != "open":
            assert breaker.retry_at_s - now_s >= config.open_s - 1e-9
        if breaker.state != "half-open" or breaker.allows(now_s):
            probes = 0
    now_s += max(config.open_s, config.max_open_s)
    breaker.check(now_s, has_work=False)
    assert breaker.allows(now_s)
    breaker.succeeded(now_s, breaker.sent(now_s))
    assert state(breaker) == "closed"


@given(CONFIGS, st.lists(st.floats(0.0, 0.4), max_size=50))
def test_successes_alone_never_open_it(config: BreakerConfig, gaps_s: list[float]) -> None:
    breaker = Breaker(config)
    now_s = 0.0
    for gap_s in gaps_s:
        ticket = breaker.sent(now_s)
        now_s += gap_s
        breaker.check(now_s, has_work=True)
        breaker.succeeded(now_s, ticket)
        assert state(breaker) == "closed"


def fail(breakers: Breakers, instance: int, refused: bool = False) -> None:
    for _ in range(3):
        breakers.failed(instance, 0.0, breakers.sent(instance, 0.0), refused=refused)


def test_at_most_a_share_of_a_models_instances_is_open() -> None:
    config = CONFIG.model_copy(update={"max_open_share": 0.5})
    breakers = Breakers(config, ["a", "a", "a", "a", "b", "b"])
    for instance in range(6):
        fail(breakers, instance)
    assert [breakers[each].state for each in range(6)] == [
        "open",
        "open",
        "closed",
        "closed",
        "open",
        "closed",
    ]
    probe = breakers.sent(0, 1.0)
    breakers.failed(2, 1.0)
    assert state(breakers[2]) == "closed"  # a half-open instance counts as well
    breakers.succeeded(0, 1.1, probe)
    breakers.failed(2, 1.2)
    assert state(breakers[2]) == "open"


def test_lack_of_progress_respects_the_share() -> None:
    breakers = Breakers(CONFIG.model_copy(update={"max_open_share": 0.5}), ["a"] * 4)
    for instance in range(4):
        breakers.sent(instance, 0.0)
    breakers.check(10.0, [True] * 4, [-math.inf] * 4)
    assert [breakers[each].state for each in range(4)] == ["open", "open", "closed", "closed"]


def test_where_all_refuse_connections_all_open() -> None:
    breakers = Breakers(CONFIG.model_copy(update={"max_open_share": 0.5}), ["a"] * 4)
    for _ in range(2):
        for instance in range(4):
            fail(breakers, instance, refused=True)
    assert [breakers[each].state for each in range(4)] == ["open"] * 4


@pytest.mark.parametrize(("share", "most"), [(0.0, 0), (0.3, 3), (0.7, 7), (1.0, 10)])
def test_shares_are_counted_exactly(share: float, most: int) -> None:
    breakers = Breakers(CONFIG.model_copy(update={"max_open_share": share}), ["a"] * 10)
    for instance in range(10):
        fail(breakers, instance)
    assert sum(breakers[each].state == "open" for each in range(10)) == most


def test_when_to_come_back() -> None:
    breakers = Breakers(CONFIG, ["a", "b"])
    fail(breakers, 0)
    assert breakers.retry_at_s([0]) == 1.0
    assert breakers.retry_at_s([]) == math.inf
    breakers.configure(CONFIG.model_copy(update={"open_s": 5.0}))
    fail(breakers, 1)
    assert breakers.retry_at_s([1]) == 5.0
    assert not breakers.allows(1, 1.0)
