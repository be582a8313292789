"""The recorded requests served again: by the engine, and by vLLM's own scheduler around a made-up model."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rbx.config.pool import StepTime, Tier
from rbx.engine.simulator import EngineSim
from tests.validation.recorded_run import RecordedRun

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Served:
    """When each request (N,) stood in a batch first, and got its first and last token.

    Seconds from the first arrival.
    """

    scheduled_s: Floats
    first_token_s: Floats
    last_token_s: Floats
    preemptions: int


def submitted(run: RecordedRun, tier: Tier) -> EngineSim:
    """An engine with the requests of the run; lengths are true ones, and every answer ends by its cap."""
    n = len(run.arrival_s)
    engine = EngineSim([tier], n)
    columns = (run.arrival_s, run.prompt_tokens, run.output_tokens, run.output_tokens)
    engine.submit_many(np.zeros(n, dtype=np.int64), *columns, np.ones(n, dtype=bool))
    return engine


def served(run: RecordedRun, step_time: StepTime, **limits: int) -> Served:
    """By the engine; ``limits`` replace recorded ones."""
    engine = submitted(run, run.tier(step_time, **limits))
    engine.drain()
    return Served(
        engine.first_scheduled_s.copy(),
        engine.first_token_s.copy(),
        engine.done_s.copy(),
        int(engine.preemptions.sum()),
    )


def served_by_vllm(run: RecordedRun, step_time: StepTime, *, prefix_caching: bool) -> Served:
    """By the installed vLLM's scheduler and core loop, steps as long as ``step_time`` says."""
    from tests.vllm.virtual_core import VirtualCore
    from tests.vllm.virtual_executor import Sequence

    columns = (run.arrival_s, run.prompt_tokens, run.output_tokens, run.output_tokens)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    sequences = [Sequence(slot, *row) for slot, row in enumerate(rows)]
    VirtualCore(run.tier(step_time), sequences, prefix_caching=prefix_caching).run()
    return Served(
        np.array([sequence.first_scheduled_s for sequence in sequences]),
        np.array([sequence.first_token_s for sequence in sequences]),
        np.array([sequence.done_s for sequence in sequences]),
        sum(sequence.preemptions for sequence in sequences),
    )
