"""A router gets a state to decide by, whatever its sources do, and can tell why."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest

from rbx.engine import snapshot_columns as snap
from rbx.engine.instance_profile import InstanceProfile
from rbx.engine.simulator import EngineSim
from rbx.engine.snapshot_export import export_snapshot
from rbx.errors import EngineError
from rbx.heads.bea.prediction import Probe
from rbx.heads.bea.ttft import predict_ttft
from rbx.serve.state.ladder import LEDGER, Fallback, Rung, StateLadder
from rbx.serve.state.shadow import Shadow
from rbx.serve.state.source import StateFlag, StateReading
from tests.engine.scenes import tier

SERVER = tier(max_num_seqs=2)
PROFILE = InstanceProfile.of(SERVER)


@dataclass
class Scripted:
    """Gives what the test puts into it."""

    reading: StateReading | None = None
    broken: bool = False

    def newest(self, now_s: float) -> StateReading | None:
        if self.broken:
            raise EngineError("free_blocks is -1; there are 400 blocks in all")
        return self.reading


def exact(stamp_s: float) -> StateReading:
    """A snapshot of three requests named a, b, c; two of them run."""
    engine = EngineSim([SERVER], 3)
    engine.submit_many([0] * 3, [0.0] * 3, [10, 20, 30], [50] * 3, [60] * 3)
    engine.advance(0.105)
    seen = export_snapshot(engine, 0, PROFILE)
    shift_s = stamp_s - seen.stamp_s
    seen = replace(seen, stamp_s=stamp_s, step_start_s=seen.step_start_s + shift_s)
    return StateReading(seen, 0.0, ("a", "b", "c"))


def ladder(first: Scripted, second: Scripted) -> StateLadder:
    return StateLadder(PROFILE, [Rung("plugin", first, 0.5), Rung("shadow", second, 2.0)])


def test_the_first_fresh_source_is_taken_and_nothing_is_counted() -> None:
    states = ladder(Scripted(exact(10.0)), Scripted(exact(10.1)))
    best = states.best(10.2)
    assert (best.rung, best.reading.snapshot.stamp_s, best.reading.flags) == ("plugin", 10.0, StateFlag.EXACT)
    assert states.fallbacks == {}


@pytest.mark.parametrize(
    ("first", "now_s", "reason"),
    [
        (Scripted(), 10.2, Fallback.MISSING),
        (Scripted(broken=True), 10.2, Fallback.INVALID),
        (Scripted(exact(10.0)), 10.6, Fallback.STALE),
        (Scripted(exact(10.5)), 10.2, Fallback.CLOCK_JUMP),
    ],
    ids=lambda value: value.value if isinstance(value, Fallback) else "",
)
def test_each_fault_is_counted_by_its_reason_and_the_next_source_answers(
    first: Scripted, now_s: float, reason: Fallback
) -> None:
    states = ladder(first, Scripted(exact(10.1)))
    for _ in range(3):
        assert states.best(now_s).rung == "shadow"
    assert states.fallbacks == {("plugin", reason): 3}


def test_a_snapshot_published_after_the_look_at_the_clock_moves_the_question() -> None:
    states = ladder(Scripted(exact(10.203)), Scripted())
    states.dispatched("d", 10.202, 70, 50)
    best = states.best(10.2)
    assert (best.rung, best.now_s) == ("plugin", 10.203)
    assert predict_ttft(best.reading.snapshot, Probe(50), now_s=best.now_s, unseen=best.unseen).seconds > 0.0


def test_a_stamp_that_runs_back_is_refused_once() -> None:
    source = Scripted(exact(10.0))
    states = ladder(source, Scripted(exact(10.0)))
    assert states.best(10.1).rung == "plugin"
    source.reading = exact(9.9)
    assert states.best(10.1).rung == "shadow"
    assert states.best(10.1).rung == "plugin"
    assert states.fallbacks == {("plugin", Fallback.CLOCK_JUMP): 1}


def test_without_any_source_all_that_was_sent_waits_in_order() -> None:
    states = ladder(Scripted(broken=True), Scripted())
    for name, prompt in (("a", 100), ("b", 200), ("c", 300)):
        states.dispatched(name, 1.0, prompt, 50, 40)
    states.ended("b")
    states.ended("never sent")
    best = states.best(2.0)
    assert (best.rung, best.reading.flags, best.reading.request_ids) == (
        LEDGER,
        StateFlag.LEDGER_ONLY,
        ("a", "c"),
    )
    snapshot = best.reading.snapshot
    assert (snapshot.running, snapshot.free_blocks) == (0, 400)
    assert snapshot.requests[:, snap.PROMPT].tolist() == [100, 300]
    assert len(best.unseen.requests) == 0
    empty = replace(snapshot, requests=snapshot.requests[:0])
    assert predict_ttft(snapshot, Probe(50)).seconds > predict_ttft(empty, Probe(50)).seconds
    assert states.fallbacks == {("plugin", Fallback.INVALID): 1, ("shadow", Fallback.MISSING): 1}


def test_what_a_source_has_not_shown_yet_stays_in_the_ledger() -> None:
    source = Scripted(exact(10.0))
    states = ladder(source, Scripted())
    for name, at_s in (("a", 9.9), ("b", 9.95), ("d", 10.05), ("e", 10.01)):
        states.dispatched(name, at_s, 100 if name == "d" else 70, 50)
    unseen = states.best(10.1).unseen
    assert unseen.dispatched_s.tolist() == [10.01, 10.05]
    assert unseen.requests[:, snap.PROMPT].tolist() == [70, 100]
    # Shown once and gone since: the engine has finished it, though its end has not come back.
    source.reading = replace(exact(10.2), request_ids=("d", "e", "x"))
    assert len(states.best(10.2).unseen.requests) == 0
    source.reading = replace(exact(10.3), request_ids=("x", "y", "z"))
    assert len(states.best(10.3).unseen.requests) == 0


def test_seen_by_one_source_is_not_seen_by_another() -> None:
    plugin = Scripted()
    states = ladder(plugin, Scripted(exact(10.0)))
    states.dispatched("a", 9.99, 10, 50)
    assert len(states.best(10.0).unseen.requests) == 0
    plugin.reading = replace(exact(9.98), request_ids=("x", "y", "z"))
    best = states.best(10.0)
    assert (best.rung, len(best.unseen.requests)) == ("plugin", 1)


def test_a_shadow_is_a_source() -> None:
    shadow = Shadow(PROFILE)
    states = StateLadder(PROFILE, [Rung("shadow", shadow, 1.0)])
    shadow.dispatched("a", 1.0, 100, 50, 40)
    states.dispatched("a", 1.0, 100, 50, 40)
    best = states.best(1.001)
    assert (best.rung, best.reading.request_ids) == ("shadow", ("a",))
    assert best.reading.flags == StateFlag.GUESSED
    assert len(best.unseen.requests) == 0


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"request": ""}, "empty name"),
        ({"at_s": float("nan")}, "dispatched at nan s"),
        ({"prompt_tokens": 0}, "prompt_tokens is 0"),
        ({"prompt_tokens": 2048}, "leave room for a token in max_model_len = 2048"),
        ({"cap_tokens": 0}, "cap_tokens is 0"),
        ({"predicted_tokens": -1}, "predicted_tokens -1"),
        ({"cached_prefix_tokens": 10}, "cached_prefix_tokens is 10 of 10"),
    ],
)
def test_a_dispatch_that_no_engine_would_take_is_refused(change: dict[str, float], words: str) -> None:
    sent: dict[str, Any] = {
        "request": "a",
        "at_s": 1.0,
        "prompt_tokens": 10,
        "cap_tokens": 5,
        "predicted_tokens": 5,
        **change,
    }
    with pytest.raises(EngineError, match=words):
        StateLadder(PROFILE, []).dispatched(**sent)
    with pytest.raises(EngineError, match=words.replace("dispatched at nan", "time of an event is nan")):
        Shadow(PROFILE).dispatched(**sent)


@pytest.mark.parametrize("max_age_s", [0.0, -1.0, float("nan"), float("inf")])
def test_a_source_needs_a_largest_age(max_age_s: float) -> None:
    with pytest.raises(EngineError, match="max_age_s of 'plugin'"):
        Rung("plugin", Scripted(), max_age_s)


@pytest.mark.parametrize("names", [("a", "a"), (LEDGER,)])
def test_sources_need_names_of_their_own(names: tuple[str, ...]) -> None:
    with pytest.raises(EngineError, match="a name of its own"):
        StateLadder(PROFILE, [Rung(name, Scripted(), 1.0) for name in names])
