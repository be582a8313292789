"""Random workloads served three times: by vLLM's engine core, by the plain reading, by the engine."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from rbx.config.pool import Tier
from rbx.engine import instance_columns as inst
from rbx.engine.simulator import EngineSim
from tests.engine.oracle import Request as PlainRequest
from tests.engine.scenes import Workload, random_tier, random_workload, tier
from tests.vllm.formations import RecordedInstance, first_difference
from tests.vllm.virtual_core import VirtualCore
from tests.vllm.virtual_executor import Sequence

EVERY_SERVER_SCENE = 25  # scenes of a server's usual size cost a second each, small ones 0.05 s
RESULTS = ("first_scheduled_s", "first_token_s", "done_s", "preemptions")


@dataclass(frozen=True)
class Scene:
    """One instance, its requests, and the caps that vLLM is told (at least the true lengths)."""

    tier: Tier
    workload: Workload
    max_tokens: tuple[int, ...]
    stops: bool  # whether the engine is stopped and inspected within every step
    runner_v2: bool  # whether vLLM is told of its second model runner

    @property
    def stops_by_length(self) -> NDArray[np.bool_]:
        """An answer that ends at its cap ends foreseeably, whatever its last token is."""
        return np.equal(self.max_tokens, self.workload.output)


@dataclass
class Tally:
    """What was compared; every count comes from vLLM."""

    scenes: int = 0
    requests: int = 0
    batches: int = 0
    chunks: int = 0  # shares that left a prefill unfinished
    preemptions: int = 0
    steps_for_nothing: int = 0  # shares of requests that had ended when the step did
    held_back: int = 0  # batches that left requests waiting though tokens and seats were to spare

    def add(self, other: Tally) -> None:
        for column in fields(self):
            setattr(self, column.name, getattr(self, column.name) + getattr(other, column.name))


def scene(seed: int, asynchronous: bool) -> Scene:
    """The scene of a seed; times are sums of few powers of two, so that they are exact everywhere."""
    rng = np.random.default_rng([seed, asynchronous])
    server = seed % EVERY_SERVER_SCENE == 0
    chosen = _server_tier(rng) if server else random_tier(rng, exact=True)
    limits = chosen.limits.model_copy(update={"async_scheduling": asynchronous})
    chosen = chosen.model_copy(update={"limits": limits})
    workload = random_workload(rng, [chosen], int(rng.integers(1, 120 if server else 40)), exact=True)
    # A cap may pass the context limit, which then ends the answer.
    longer = rng.integers(workload.output + 1, limits.max_model_len - workload.prompt + 2)
    caps = np.where(workload.by_length, workload.output, longer)
    return Scene(chosen, workload, tuple(caps.tolist()), *(rng.random(2) < 0.5).tolist())


def _server_tier(rng: Generator) -> Tier:
    """Settings of the size that servers have, with a cache that is often too small for all seats."""
    max_model_len = int(rng.choice([512, 2048, 8192]))
    block_size = int(rng.choice([16, 32, 128]))
    seats = int(rng.choice([16, 64, 256]))
    return tier(
        b0_s=2.0**-7,
        b1_s=2.0**-16,
        b2_s=2.0**-20,
        b3_s=0.0,
        max_num_seqs=seats,
        max_num_batched_tokens=int(rng.choice([512, 2048, 8192])),
        max_model_len=max_model_len,
        block_size=block_size,
        kv_blocks=max_model_len * int(rng.choice([1, 2, 8])) // block_size,
        reserve_full_prompt=bool(rng.random() < 0.7),
    )


def serve_with_vllm(case: Scene, told: Tier | None = None, prefix_caching: bool = False) -> VirtualCore:
    """Run the scene through vLLM; ``told`` replaces the scene's settings, to see that they matter."""
    columns = (case.workload.at_s, case.workload.prompt, case.workload.output)
    rows = zip(*(column.tolist() for column in columns), case.max_tokens, strict=True)
    sequences = [Sequence(slot, *row) for slot, row in enumerate(rows)]
    core = VirtualCore(told or case.tier, sequences, runner_v2=case.runner_v2, prefix_caching=prefix_caching)
    core.run()
    return core


def serve_plainly(case: Scene) -> RecordedInstance:
    """Run the scene through the plain reading."""
    instance, workload = RecordedInstance(case.tier), case.workload
    columns = (workload.at_s, workload.prompt, workload.output, workload.predicted, case.stops_by_length)
    for slot, row in enumerate(zip(*(column.tolist() for column in columns), strict=True)):
        instance.submit(PlainRequest(slot, *row))
    instance.advance(np.inf)
    return instance


def difference(case: Scene, core: VirtualCore) -> str | None:
    """The first thing in which the plain reading or the engine departs from vLLM; None if nothing."""
    found = first_difference(case.tier, core.formations, serve_plainly(case).formations)
    if found:
        return found
    workload = case.workload
    engine = EngineSim([case.tier], len(workload.at_s))
    columns = (workload.instance, workload.at_s, workload.prompt, workload.output, workload.predicted)
    engine.submit_many(*columns, case.stops_by_length)
    if case.stops:
        found = _difference_on_the_way(engine, core)
        if found:
            return found
    engine.drain()
    sequences = core.executor.sequences
    for name in RESULTS:
        theirs, ours = np.array([getattr(s, name) for s in sequences]), getattr(engine, name)
        if not np.array_equal(theirs, ours):
            return f"{name} under {case.tier.limits}:\n  vLLM   {theirs}\n  engine {ours}"
    engine.advance(max(engine.clock_s, core.executor.free_s) + 1.0)
    if int(engine.steps[0]) != len(core.executor.steps):
        return f"vLLM took {len(core.executor.steps)} steps, the engine {int(engine.steps[0])}"
    return None


def _difference_on_the_way(engine: EngineSim, core: VirtualCore) -> str | None:
    """Stop in the middle of every step: what runs, who has a seat, and how many blocks are free."""
    formations = iter([*core.formations, None])
    state, following = None, next(formations)
    for number, step in enumerate(core.executor.steps, start=1):
        middle_s = (step.start_s + step.end_s) / 2
        while following is not None and following.at_s <= middle_s:
            state, following = following, next(formations)
        assert state is not None
        engine.advance(middle_s)
        row, telemetry = engine._state.counts[0], engine.telemetry()
        grown = (row[inst.RUN_STEPS] - 1) * row[inst.RUN_DECODES]
        decode_side = (row[inst.RUN_DECODES], row[inst.RUN_CONTEXT] + grown)
        prefill_side = row[inst.RUN_PREFILL_TOKENS : inst.RUN_PREFILL_CROSS + 1]
        kept = (telemetry.running[0], telemetry.free_blocks[0])
        ours = tuple(map(int, (*decode_side, *prefill_side, *kept)))
        theirs = (*step.composition, len(state.running), state.free_blocks)
        if not row[inst.STEPPING] or ours != theirs:
            return f"within step {number}: vLLM {theirs}, the engine {ours}"
    return None


def tally(case: Scene, core: VirtualCore) -> Tally:
    """What the scene reached, counted from vLLM's side."""
    sequences, limits = core.executor.sequences, case.tier.limits
    count = Tally(scenes=1, requests=len(sequences), batches=len(core.executor.steps))
    count.preemptions = sum(sequence.preemptions for sequence in sequences)
    count.steps_for_nothing = sum(sequence.sampled - sequence.output for sequence in sequences)
    for formation in core.formations:
        total = sum(tokens for _, tokens in formation.tokens)
        spare = total < limits.max_num_batched_tokens and len(formation.running) < limits.max_num_seqs
        count.held_back += bool(formation.waiting and spare)
    shares = sum(len(formation.tokens) for formation in core.formations)
    count.chunks = shares - sum(sequence.sampled for sequence in sequences)
    return count


def compare(seeds: Iterable[int], asynchronous: bool) -> tuple[Tally, list[str]]:
    """The scenes of ``seeds``: what they reached, and every difference found."""
    total, found = Tally(), []
    for seed in seeds:
        case = scene(seed, asynchronous)
        core = serve_with_vllm(case)
        total.add(tally(case, core))
        text = difference(case, core)
        if text:
            found.append(f"scene {seed}, asynchronous={asynchronous}: {text}")
    return total, found
