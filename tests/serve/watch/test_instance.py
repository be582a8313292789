"""One instance: what is known of it whatever it says, for how long, and after it began anew."""

from __future__ import annotations

import numpy as np
import pytest

from rbx.config.gateway import Watch
from rbx.engine import snapshot_columns as snap
from rbx.engine.instance_profile import InstanceProfile
from rbx.errors import EngineError
from rbx.serve.state.exact import ExactState
from rbx.serve.state.ladder import LEDGER
from rbx.serve.state.source import StateFlag
from rbx.serve.watch.instance import EXACT_AGE_S, SHADOW, InstanceWatch
from tests.serve.state.test_exact import SERVER, Reader
from tests.serve.watch.pages import metrics, small_pool

CONFIG = Watch(period_s=0.5, timeout_s=1.0, max_age_s=3.0)
AT_S = 1000.0


def watched(*exact: tuple[str, ExactState]) -> InstanceWatch:
    profile = InstanceProfile.of(small_pool().instances[0].tier)
    return InstanceWatch(profile, exact, CONFIG, AT_S)


def send(watch: InstanceWatch, name: str, at_s: float = AT_S, prompt: int = 20) -> None:
    watch.dispatched(name, at_s, prompt, 200, 50)


def load(watch: InstanceWatch, now_s: float) -> tuple[int, int]:
    snapshot = watch.best(now_s).reading.snapshot
    return snapshot.running, len(snapshot.requests) - snapshot.running


def test_our_requests_are_there_from_dispatch_to_end_whatever_is_scraped() -> None:
    watch = watched()
    for k in range(6):
        send(watch, f"r{k}")
    assert sum(load(watch, AT_S)) == watch.in_flight == 6
    watch.page(metrics(0, 0), AT_S + 0.1, AT_S + 0.1)  # taken before they had arrived
    assert sum(load(watch, AT_S + 0.1)) == 6
    for k in range(4):
        watch.tokens(f"r{k}", AT_S + 0.2, 1)
    assert load(watch, AT_S + 0.2) == (4, 2)  # four seats
    watch.ended("r0", AT_S + 0.3)
    watch.ended("r0", AT_S + 0.3)
    assert sum(load(watch, AT_S + 0.4)) == watch.in_flight == 5


def test_a_hung_server_keeps_its_load_and_loses_its_readiness() -> None:
    """No token, no scrape, no probe: nothing of ours is taken to have finished, however long it takes."""
    watch = watched()
    watch.probed(AT_S, answered=True)
    for k in range(6):
        send(watch, f"r{k}")
    assert watch.ready(AT_S + 3.0)
    for later_s in (3.1, 60.0, 3600.0):
        assert not watch.ready(AT_S + later_s)
        best = watch.best(AT_S + later_s)
        assert best.rung == SHADOW
        snapshot = best.reading.snapshot
        assert len(snapshot.requests) == 6
        left = np.maximum(0, snapshot.requests[:, snap.PREDICTED] - snapshot.requests[:, snap.GENERATED])
        assert left.sum() == 6 * 50
        assert watch.age_s(best, AT_S + later_s) == pytest.approx(later_s)


def test_who_never_answered_is_not_ready_and_counts_its_age_from_the_start() -> None:
    watch = watched()
    assert not watch.ready(AT_S)
    assert set(watch.ages_s(AT_S + 1.0).values()) == {np.inf}
    assert watch.age_s(watch.best(AT_S + 1.0), AT_S + 1.0) == pytest.approx(1.0)


def test_tokens_show_that_a_server_serves_and_a_refusal_ends_what_was_before() -> None:
    watch = watched()
    send(watch, "r")
    watch.tokens("r", AT_S + 1.0, 1)
    assert watch.ready(AT_S + 3.9)
    watch.probed(AT_S + 2.0, answered=False)
    assert not watch.ready(AT_S + 2.1)
    watch.tokens("r", AT_S + 2.2, 2)
    assert watch.ready(AT_S + 2.3)
    watch.probed(AT_S + 2.4, answered=False)
    watch.probed(AT_S + 2.5, answered=True)
    assert watch.ready(AT_S + 2.6)


def test_requests_of_others_count_until_their_gauge_is_too_old() -> None:
    watch = watched()
    send(watch, "r")
    watch.page(metrics(4, 5, 0.2), AT_S + 0.1, AT_S + 0.2)
    assert sum(load(watch, AT_S + 0.3)) == 9
    assert StateFlag.FOREIGN in watch.best(AT_S + 0.3).reading.flags
    assert watch.ages_s(AT_S + 3.1)["gauges"] == pytest.approx(3.0)
    assert sum(load(watch, AT_S + 3.0)) > 1
    assert sum(load(watch, AT_S + 3.2)) == 1
    best = watch.best(AT_S + 3.2)
    assert StateFlag.FOREIGN not in best.reading.flags
    assert StateFlag.BLOCKS_CORRECTED not in best.reading.flags
    watch.page(metrics(1, 8, 0.2), AT_S + 4.0, AT_S + 4.0)
    assert sum(load(watch, AT_S + 4.0)) == 9


def test_a_gauge_is_as_old_as_its_question() -> None:
    """A page that took long may show requests that have ended since it was asked for."""
    slow, prompt = watched(), watched()
    for watch in (slow, prompt):
        for k in range(3):
            send(watch, f"r{k}")
            watch.tokens(f"r{k}", AT_S + 0.05, 1)
            watch.ended(f"r{k}", AT_S + 0.2)
    slow.page(metrics(3, 0, 0.01), AT_S + 0.1, AT_S + 0.9)
    prompt.page(metrics(3, 0, 0.01), AT_S + 0.9, AT_S + 0.9)
    assert sum(load(slow, AT_S + 0.9)) == 0
    assert sum(load(prompt, AT_S + 0.9)) == 3
    assert slow.ages_s(AT_S + 0.9)["gauges"] == pytest.approx(0.8)


@pytest.mark.parametrize(
    "page",
    [
        "",
        "<html>login</html>",
        metrics(float("nan")),
        metrics(-1, -1),
        metrics(1e12),
        metrics(2, 1, 55.0),
        "\x00\ufffd vllm:num_requests_running{",
        "vllm:num_requests_running{" * 5000,
    ],
)
def test_a_page_that_cannot_be_changes_nothing(page: str) -> None:
    watch = watched()
    watch.page(metrics(2, 1, 0.1), AT_S, AT_S)
    send(watch, "r")
    before = load(watch, AT_S + 0.1)
    with pytest.raises(EngineError):
        watch.page(page, AT_S + 0.1, AT_S + 0.1)
    assert load(watch, AT_S + 0.1) == before
    assert watch.ages_s(AT_S + 0.5)["gauges"] == pytest.approx(0.5)


def test_a_page_that_stands_still_while_answers_go_on_is_an_old_one() -> None:
    """However often it is asked for; a token on its way when it was made says nothing."""
    watch = watched()
    send(watch, "r")
    watch.page(metrics(1, counted=1), AT_S, AT_S)
    for k in range(4):
        watch.tokens("r", AT_S + 0.1 * k, k + 1)
        watch.page(metrics(1, counted=1), AT_S + 0.1 * k, AT_S + 0.1 * k)
    watch.page(metrics(1, counted=1), AT_S + 0.5, AT_S + 0.9)  # slow, and true when it was made
    with pytest.raises(EngineError, match="counts nothing more, although answers go on"):
        watch.page(metrics(1, counted=1), AT_S + 0.6, AT_S + 0.6)
    assert watch.ages_s(AT_S + 0.6)["gauges"] == pytest.approx(0.1)
    watch.page(metrics(1, counted=4), AT_S + 0.7, AT_S + 0.7)
    assert watch.ages_s(AT_S + 0.7)["gauges"] == 0.0
    watch.tokens("r", AT_S + 0.8, 5)
    watch.page(metrics(1, counted=4), AT_S + 2.0, AT_S + 2.0)  # counted just before it was seen
    watch.tokens("r", AT_S + 5.0, 6)
    watch.page(metrics(1, counted=5), AT_S + 6.0, AT_S + 6.0)


def test_a_server_that_began_anew_has_lost_what_it_had() -> None:
    watch = watched()
    send(watch, "old", AT_S)
    watch.tokens("old", AT_S + 0.1, 30)
    watch.page(metrics(1, counted=500, started_s=1e9), AT_S + 0.5, AT_S + 0.5)
    send(watch, "new", AT_S + 0.8)
    watch.page(metrics(1, counted=3, started_s=1e9 + 60), AT_S + 1.0, AT_S + 1.0)
    assert watch.restarts == 1
    assert watch.in_flight == 1
    assert watch.best(AT_S + 1.0).reading.request_ids == ("new",)
    watch.ended("old", AT_S + 1.2)
    watch.ended("new", AT_S + 1.2)
    assert (watch.in_flight, load(watch, AT_S + 1.2)) == (0, (0, 0))


def test_a_request_that_gives_a_token_after_all_was_not_lost() -> None:
    watch = watched()
    send(watch, "r", AT_S)
    watch.page(metrics(1, counted=500), AT_S + 0.5, AT_S + 0.5)
    watch.page(metrics(0, counted=3), AT_S + 1.0, AT_S + 1.0)
    assert watch.in_flight == 0
    watch.tokens("r", AT_S + 1.1, 7)
    best = watch.best(AT_S + 1.1)
    assert best.reading.request_ids == ("r",)
    assert best.reading.snapshot.requests[0, snap.GENERATED] == 7
    assert watch.in_flight == 1


def test_a_published_state_goes_before_the_shadow_while_it_is_fresh() -> None:
    """The reader shows two requests of ours and one of others; a third of ours is not in it yet."""
    source = ExactState(Reader(), "completions", "chat/completions")
    watch = InstanceWatch(InstanceProfile.of(SERVER), [("state", source)], CONFIG, 0.0)
    stamp_s = 0.105
    for name, predicted in (("a", 33), ("b", 22)):
        watch.dispatched(name, 0.0, 20, 200, predicted)
    watch.dispatched("late", stamp_s + 0.01, 20, 200, 44)
    best = watch.best(stamp_s + 0.02)
    assert best.rung == "state"
    assert watch.age_s(best, stamp_s + 0.02) == pytest.approx(0.02)
    assert best.reading.request_ids == ("a", "", "b")
    assert best.reading.snapshot.requests[:, snap.PREDICTED].tolist() == [33, 0, 22]
    assert best.unseen.requests[:, snap.PREDICTED].tolist() == [44]
    assert watch.received(best) == 2
    later_s = stamp_s + EXACT_AGE_S + 0.1
    assert watch.best(later_s).rung == SHADOW
    assert watch.received(watch.best(later_s)) == 3
    assert watch.fallbacks == {"state: stale": 1}


def test_readings_of_one_moment_are_one_unless_something_was_sent() -> None:
    watch = watched()
    send(watch, "a")
    first = watch.best(AT_S)
    assert watch.best(AT_S + 0.0005) is first
    assert watch.best(AT_S + 0.0015) is not first
    again = watch.best(AT_S + 0.0016)
    send(watch, "b", AT_S + 0.0016)
    assert watch.best(AT_S + 0.0016) is not again
    assert sum(load(watch, AT_S + 0.0016)) == 2


def test_sizes_that_no_engine_takes_are_refused_and_change_nothing() -> None:
    watch = watched()
    with pytest.raises(EngineError, match="prompt_tokens is 512"):
        watch.dispatched("r", AT_S, 512, 10, 10)
    with pytest.raises(EngineError, match="cap_tokens is 0"):
        watch.dispatched("r", AT_S, 10, 0, 10)
    assert (watch.in_flight, load(watch, AT_S)) == (0, (0, 0))
    assert watch.best(AT_S).rung != LEDGER


def test_counters_tell_of_progress_once_they_have_risen_and_while_the_page_is_fresh() -> None:
    watch = watched()
    never = -np.inf
    watch.page(metrics(counted=7), AT_S, AT_S)
    assert watch.counted_s(AT_S) == never  # it may keep no statistics
    watch.page(metrics(counted=7), AT_S + 1.0, AT_S + 1.0)
    assert watch.counted_s(AT_S + 1.0) == never
    watch.page(metrics(counted=8), AT_S + 2.0, AT_S + 2.0)
    watch.page(metrics(counted=8), AT_S + 3.0, AT_S + 3.0)
    assert watch.counted_s(AT_S + 3.0) == AT_S + 2.0
    assert watch.counted_s(AT_S + 7.0) == never  # older than max_age_s
    watch.page(metrics(counted=1), AT_S + 8.0, AT_S + 8.0)  # another process
    assert watch.counted_s(AT_S + 8.0) == never
    watch.page(metrics(counted=None), AT_S + 9.0, AT_S + 9.0)
    assert watch.counted_s(AT_S + 9.0) == never
    watch.page(metrics(counted=3), AT_S + 10.0, AT_S + 10.0)
    assert watch.counted_s(AT_S + 10.0) == AT_S + 10.0
