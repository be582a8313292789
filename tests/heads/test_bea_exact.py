"""With true lengths BEA says what the simulator then does, from any moment and at any age."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from rbx.engine import snapshot_columns as snap
from rbx.heads.bea.prediction import Probe, ReplayCaps, TtftFlag
from rbx.heads.bea.ttft import predict_ttft
from tests.heads.bea_states import Moment, random_moment

STATES, BLOCKS = 4000, 4
FAR = ReplayCaps(horizon_s=1e9)


def describe(moment: Moment, seen: Counter[str]) -> None:
    """Count what the states of a run contain, so that none of it can silently go missing."""
    snapshot, limits = moment.snapshot, moment.snapshot.profile.limits
    waiting = snapshot.requests[snapshot.running :]
    seen["async"] += limits.async_scheduling
    seen["step and batch ahead"] += len(snapshot.steps) == 2
    seen["between steps"] += snapshot.running > 0 and not snapshot.stepping
    seen["chunk"] += int(snapshot.requests[:, snap.PREFILLING].sum())
    seen["backlog"] += len(waiting) > 0
    seen["preempted, token coming"] += int(waiting[:, snap.YIELDS].sum())
    seen["preempted"] += int((snapshot.requests[:, snap.PREEMPTIONS] > 0).any())
    seen["aged"] += moment.now_s > snapshot.stamp_s and snapshot.running > 0
    seen["unseen"] += len(moment.unseen.requests) > 0
    left_out = (snapshot.requests[:, snap.YIELDS] == 1) & (snapshot.requests[:, snap.YIELDS_AHEAD] == 0)
    seen["end foreseen"] += len(snapshot.steps) == 2 and bool(left_out[: snapshot.running].any())


def assert_exact(moment: Moment, prompt: int, where: str) -> TtftFlag:
    """Predict a probe's first token, then let it happen; the flags of the prediction."""
    predicted = predict_ttft(
        moment.snapshot, Probe(prompt), now_s=moment.now_s, unseen=moment.unseen, caps=FAR
    )
    engine = moment.engine
    steps = int(engine.steps[0])
    slot = engine.submit(0, moment.now_s, prompt, 1, 1)
    engine.advance(moment.now_s + predicted.seconds * (1.0 + 1e-12) + 1e-12)
    happened_s = float(engine.first_token_s[slot]) - moment.now_s
    tolerance = 1e-9 * max(1.0, moment.now_s)
    assert predicted.seconds == pytest.approx(happened_s, abs=tolerance), where
    assert predicted.steps == int(engine.steps[0]) - steps
    assert not predicted.flags & ~(TtftFlag.PREEMPTION | TtftFlag.AGED)
    return predicted.flags


@pytest.mark.parametrize("block", range(BLOCKS))
@pytest.mark.parametrize("exact", [True, False], ids=["exact-times", "rounded-times"])
def test_true_lengths_predict_the_simulator(exact: bool, block: int) -> None:
    seen: Counter[str] = Counter()
    for seed in range(block, STATES // 2, BLOCKS):
        rng = np.random.default_rng([seed, exact])
        moment = random_moment(rng, exact=exact)
        prompt = int(rng.integers(1, moment.max_prompt + 1))
        flags = assert_exact(moment, prompt, f"seed {seed}")
        describe(moment, seen)
        seen["preemption before the first token"] += bool(flags & TtftFlag.PREEMPTION)
    scarce = [name for name, count in seen.items() if count == 0]
    assert len(seen) == 11, sorted(seen)
    assert not scarce, f"the states no longer contain {scarce}: {seen}"


@pytest.mark.parametrize("feature_set", ["B", "C"])
def test_every_feature_set_predicts_the_simulator(feature_set: str) -> None:
    chunks = 0
    for seed in range(500):
        rng = np.random.default_rng([seed, ord(feature_set)])
        moment = random_moment(rng, exact=seed % 2 == 0, feature_set=feature_set)
        chunks += int((moment.snapshot.steps[:, snap.PREFILL_CROSS] > 0).any())
        assert_exact(moment, int(rng.integers(1, moment.max_prompt + 1)), f"seed {seed}")
    assert chunks > 10, "the states no longer contain a prompt in chunks"


def test_lengths_do_not_matter_while_nobody_leaves() -> None:
    """A few steps with the same company cost the same, whatever anyone believes about what follows."""
    checked = 0
    for seed in range(2500):
        rng = np.random.default_rng([seed, 7])
        moment = random_moment(rng, exact=True)
        prompt = int(rng.integers(1, moment.max_prompt + 1))
        requests = moment.snapshot.requests.copy()
        requests[:, snap.PREDICTED] = requests[:, snap.GENERATED] + rng.integers(4, 500, len(requests))
        guessing = replace(moment.snapshot, requests=requests)
        beyond = requests[:, snap.CAP] > requests[:, snap.GENERATED] + 4
        predicted = predict_ttft(guessing, Probe(prompt), unseen=moment.unseen, now_s=moment.now_s, caps=FAR)
        engine = moment.engine
        if moment.now_s > guessing.stamp_s or len(requests) == 0 or not beyond.all() or predicted.steps > 3:
            continue
        running = np.isnan(engine.done_s)
        slot = engine.submit(0, moment.now_s, prompt, 1, 1)
        engine.drain()
        first_s = float(engine.first_token_s[slot])
        if (engine.done_s[:slot][running] >= first_s).all():
            checked += 1
            assert predicted.seconds == first_s - moment.now_s
    assert checked > 15
