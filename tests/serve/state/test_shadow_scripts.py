"""Whatever the order of events, a shadow's snapshot holds together and shows every request outstanding."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.random import Generator

from rbx.config.pool import Tier
from rbx.engine import snapshot_columns as snap
from rbx.engine.instance_profile import InstanceProfile
from rbx.heads.bea.prediction import Probe
from rbx.heads.bea.ttft import predict_ttft
from rbx.serve.state.evidence import TypicalRequest
from rbx.serve.state.shadow import Shadow, ShadowSettings
from rbx.serve.state.source import StateFlag
from tests.engine.scenes import random_tier

NAMES = ("a", "b", "c", "d", "e", "f", "g", "h")
STEPS_S = (0.0, 0.0, 1e-4, 0.01, 0.02, 0.1, 0.5, 3.0, -0.005, -0.5, -20.0, 1e4)

TOKENS = ("tokens", "next", "next", "next", "all", "all")
KINDS = ("dispatched", "dispatched", *TOKENS, "finished", "failed", "gauges", "snapshot")

Event = tuple[str, str, int, int, float, float]
EVENTS = st.lists(
    st.tuples(
        st.sampled_from(KINDS),
        st.sampled_from(NAMES),
        st.integers(1, 30),
        st.integers(0, 40),
        st.floats(0.0, 1.0),
        st.sampled_from(STEPS_S),
    ),
    min_size=1,
    max_size=60,
)


def play(shadow: Shadow, tier: Tier, events: list[Event], seen: Counter[str]) -> None:
    """Tell the events one by one; after each, the snapshot must show what is outstanding."""
    limits, now_s, shown = tier.limits, 1.0, dict.fromkeys(NAMES, 0)
    sent: set[str] = set()
    for kind, name, small, count, share, step_s in events:
        now_s = max(0.0, now_s + step_s)
        if kind == "dispatched":
            prompt = min(1 + count * 3, limits.max_model_len - 1)
            cached, streams = min(count, prompt - 1), small % 3 > 0
            shadow.dispatched(name, now_s, prompt, small, count, cached, streams=streams)
            shown[name] = shown[name] if name in sent else 0
            sent.add(name)
        elif kind == "tokens":
            shadow.tokens(name, count, now_s)
            shown[name] = max(shown[name], count)
        elif kind in ("next", "all"):
            for each in sorted(sent) if kind == "all" else [name]:
                shown[each] += 1
                shadow.tokens(each, shown[each], now_s)
        elif kind == "gauges":
            shadow.gauges(min(small, limits.max_num_seqs), count % 5, share, now_s)
        elif kind != "snapshot":
            getattr(shadow, kind)(name, now_s)
            sent.discard(name)
        reading = shadow.newest(now_s)
        assert shadow.outstanding == len(sent)
        assert Counter(name for name in reading.request_ids if name) == Counter(sent)
        note(reading.snapshot.requests, reading.snapshot.running, reading.flags, seen)
        probed = predict_ttft(reading.snapshot, Probe(1 + small % (limits.max_model_len - 1)))
        assert probed.seconds > 0.0


def note(requests: np.ndarray, running: int, flags: StateFlag, seen: Counter[str]) -> None:
    seen["decoding"] += bool(running) and not requests[running - 1, snap.PREFILLING]
    seen["chunk"] += int(requests[:, snap.PREFILLING].sum())
    seen["waiting"] += len(requests) > running
    seen["batch ahead"] += int(requests[:, snap.YIELDS_AHEAD].sum())
    seen["foreign"] += bool(flags & StateFlag.FOREIGN)
    seen["blocks corrected"] += bool(flags & StateFlag.BLOCKS_CORRECTED)
    seen["preempted"] += int((requests[:, snap.PREEMPTIONS] > 0).sum())


def build(tier: Tier, token_s: float, dispatch_s: float) -> Shadow:
    settings = ShadowSettings(dispatch_s, token_s, typical=TypicalRequest(40, 20))
    return Shadow(InstanceProfile.of(tier), settings)


@settings(max_examples=200, deadline=None)
@given(EVENTS, st.integers(0, 2**32 - 1), st.sampled_from([0.0, 0.004]), st.sampled_from([0.0, 0.03]))
def test_any_script_leaves_a_snapshot_that_holds(
    events: list[Event], seed: int, token_s: float, dispatch_s: float
) -> None:
    tier = random_tier(np.random.default_rng(seed), exact=False)
    play(build(tier, token_s, dispatch_s), tier, events, Counter())


def random_event(rng: Generator) -> Event:
    small, count = int(rng.integers(1, 31)), int(rng.integers(0, 41))
    step_s = float(rng.choice(STEPS_S))
    return str(rng.choice(KINDS)), str(rng.choice(NAMES)), small, count, float(rng.random()), step_s


def test_long_scripts_reach_the_states_that_matter() -> None:
    seen: Counter[str] = Counter()
    for seed in range(400):
        rng = np.random.default_rng(seed)
        tier = random_tier(rng, exact=False)
        shadow = build(tier, float(rng.choice([0.0, 0.004])), float(rng.choice([0.0, 0.03])))
        play(shadow, tier, [random_event(rng) for _ in range(60)], seen)
        seen.update(shadow.ignored)
    rows = ("decoding", "chunk", "waiting", "batch ahead", "foreign", "blocks corrected", "preempted")
    wanted = (*rows, "clock jumped back", "dispatched twice", "token count went back")
    assert not [name for name in wanted if seen[name] < 10], seen
