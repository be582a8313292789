"""What steps held, against the engine's own account of the same steps."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from rbx.config.pool import EngineLimits, Tier
from rbx.engine import instance_columns as inst
from rbx.engine.simulator import EngineSim
from rbx.sweep.compare.chain import Stamps, chain_of
from rbx.sweep.compare.make_up import make_up
from tests.sweep.scenes import small_pool

Floats = NDArray[np.float64]


def served(
    tier: Tier, seed: int
) -> tuple[list[Stamps], Floats, NDArray[np.int64], NDArray[np.bool_], Floats]:
    """Answers, arrivals, prompts and kinds of end of a busy engine, and (end, make-up) of each step."""
    rng = np.random.default_rng(seed)
    n = 60
    arrived_s = np.sort(rng.uniform(0.0, 6.0, n))
    prompts, output = rng.integers(1, 1400, n), rng.integers(1, 120, n)
    by_length = rng.random(n) < 0.5
    engine = EngineSim([tier], n)
    slots = engine.submit_many(np.zeros(n, dtype=np.int64), arrived_s, prompts, output, output, by_length)
    tokens: list[list[float]] = [[] for _ in range(n)]
    given = np.zeros(n, dtype=np.int64)
    steps: list[list[float]] = []
    while (given < output).any():
        boundary_s = max(engine.next_boundary_s, float(np.nextafter(engine.clock_s, np.inf)))
        counts = engine.state.counts[0]
        running = [
            float(counts[k])
            for k in (
                inst.RUN_PREFILL_TOKENS, inst.RUN_DECODES, inst.RUN_CONTEXT, inst.RUN_PREFILL_SQUARED,
                inst.RUN_PREFILL_CROSS,
            )
        ]  # fmt: skip
        # A run of decode steps keeps the context of its first.
        running[2] += (counts[inst.RUN_STEPS] - 1) * counts[inst.RUN_DECODES]
        stepping = bool(counts[inst.STEPPING])
        engine.advance(boundary_s)
        now = engine.output_tokens(slots)
        for row in np.flatnonzero(now > given).tolist():
            tokens[row] += [boundary_s] * int(now[row] - given[row])
        if stepping and (now > given).any():
            steps.append([boundary_s, *running])
        given = now
    answers = [Stamps(len(found), found[0], found[-1], np.array(found)) for found in tokens]
    return answers, arrived_s, prompts, by_length, np.array(steps)


@pytest.mark.parametrize("ahead", [True, False])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_every_linked_step_is_made_up_as_the_engine_made_it(ahead: bool, seed: int) -> None:
    tier = small_pool(seats=12).tiers[0]
    limits = EngineLimits(**{**tier.limits.model_dump(), "async_scheduling": ahead, "kv_blocks": 4000})
    answers, arrived_s, prompts, by_length, steps = served(tier.model_copy(update={"limits": limits}), seed)
    chain = chain_of(answers)
    found = make_up(chain, arrived_s, prompts, by_length, limits)
    np.testing.assert_allclose(chain.end_s, steps[:, 0], rtol=1e-12)
    usable = found.linked & ~found.doubtful
    assert usable.sum() > 0.8 * len(steps)
    ours = np.column_stack([found.prefill_tokens, found.decodes, found.context, found.squared, found.cross])
    assert (found.prefill_tokens[usable] > 0).sum() > 50
    assert (found.cross[usable] > 0).sum() > 20
    np.testing.assert_array_equal(ours[usable], steps[usable, 1:])
