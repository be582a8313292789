"""Where the model would be: answers of given lengths, in the time of the tier's step-time model.

A batch runs when the one before it is done; its future waits by moving the clock.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from vllm.v1.core.sched.output import SchedulerOutput
from vllm.v1.outputs import EMPTY_MODEL_RUNNER_OUTPUT, ModelRunnerOutput

from rbx.config.pool import StepTime
from tests.engine.oracle import Composition, plain_step_s

TOKEN, STOP = 7, 2


@dataclass(eq=False)
class Sequence:
    """A request as the made-up model knows it."""

    slot: int
    at_s: float
    prompt: int
    output: int
    max_tokens: int  # the answer stops by itself before it, or with it
    sampled: int = 0
    received: int = 0  # tokens that reached the client
    decoding: bool = False
    preemptions: int = 0
    first_scheduled_s: float = math.nan
    first_token_s: float = math.nan
    done_s: float = math.nan


@dataclass
class Step:
    """A batch on the device; waiting for it moves the clock to its end."""

    executor: VirtualExecutor
    end_s: float
    output: ModelRunnerOutput
    composition: Composition = (0, 0, 0, 0, 0)
    start_s: float = math.nan

    def result(self) -> ModelRunnerOutput:
        self.executor.now_s = max(self.executor.now_s, self.end_s)
        return self.output


@dataclass
class VirtualExecutor:
    """Runs batches one after the other, in the order in which they come."""

    step_time: StepTime
    sequences: list[Sequence]
    now_s: float = 0.0
    free_s: float = 0.0
    steps: list[Step] = field(default_factory=list)
    last: Step | None = None

    def execute_model(self, batch: SchedulerOutput, non_block: bool = False) -> Step:
        if not batch.num_scheduled_tokens:
            self.last = Step(self, self.now_s, EMPTY_MODEL_RUNNER_OUTPUT)
            return self.last
        computed = self._computed_before(batch)
        decodes = context = prefill_tokens = squared = cross = 0
        sampled: list[list[int]] = []
        for name, tokens in batch.num_scheduled_tokens.items():
            sequence, held = self.sequences[int(name)], computed[name]
            if sequence.decoding:
                decodes, context = decodes + 1, context + held
            else:
                prefill_tokens += tokens
                squared, cross = squared + tokens**2, cross + tokens * held
            sampled.append(self._sample(sequence, held + tokens))
        composition = (decodes, context, prefill_tokens, squared, cross)
        start_s = max(self.now_s, self.free_s)
        self.free_s = start_s + plain_step_s(self.step_time, composition)
        names = list(batch.num_scheduled_tokens)
        output = ModelRunnerOutput(names, {name: k for k, name in enumerate(names)}, sampled)
        self.last = Step(self, self.free_s, output, composition, start_s)
        self.steps.append(self.last)
        return self.last

    def sample_tokens(self, grammar: None, non_block: bool = False) -> Step:
        assert grammar is None
        assert self.last is not None
        return self.last

    def _computed_before(self, batch: SchedulerOutput) -> dict[str, int]:
        """Tokens of each request in earlier batches; requests (re)admitted now start their prefill."""
        cached = batch.scheduled_cached_reqs
        computed = dict(zip(cached.req_ids, cached.num_computed_tokens, strict=True))
        for name in cached.resumed_req_ids:
            self.sequences[int(name)].decoding = False
        for new in batch.scheduled_new_reqs:
            self.sequences[int(new.req_id)].decoding = False
            computed[new.req_id] = new.num_computed_tokens
        return computed

    def _sample(self, sequence: Sequence, computed: int) -> list[int]:
        """The next token if everything known is computed, as a model runner does; else nothing."""
        if computed < sequence.prompt + sequence.sampled:
            return []
        sequence.decoding = True
        sequence.sampled += 1
        ends = sequence.sampled == sequence.output and sequence.output < sequence.max_tokens
        return [STOP if ends else TOKEN]
