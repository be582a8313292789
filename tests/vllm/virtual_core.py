"""vLLM's engine core in virtual time: its schedulers and both of its loops run as installed.

``EngineCore.step`` and ``EngineCore.step_with_batch_queue`` are inherited, as is the choice of the
scheduler class and of the number of batches in flight. The executor below stands where the model is: a
batch takes the time of the tier's step-time model, and a future waits by moving the clock.
"""

from __future__ import annotations

import copy
import json
import math
import queue
import tempfile
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import torch
from vllm.config import VllmConfig
from vllm.engine.arg_utils import EngineArgs
from vllm.sampling_params import SamplingParams
from vllm.utils.hashing import sha256
from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash
from vllm.v1.core.sched.output import SchedulerOutput
from vllm.v1.engine.core import EngineCore
from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec
from vllm.v1.outputs import EMPTY_MODEL_RUNNER_OUTPUT, ModelRunnerOutput
from vllm.v1.request import Request
from vllm.v1.structured_output import StructuredOutputManager

from rbx.config.pool import StepTime, Tier
from tests.vllm.formations import Formation

TOKEN, STOP, FIRST_PROMPT = 7, 2, 100
MODEL = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 16,
    "intermediate_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 1,
    "num_key_value_heads": 1,
    "vocab_size": 64,
    "max_position_embeddings": 1 << 20,
    "torch_dtype": "float32",
}


@cache
def configuration() -> VllmConfig:
    """What ``vllm serve`` would make of a tiny local model without weights, prefix caching off."""
    folder = Path(tempfile.mkdtemp(prefix="rbx-vllm-"))
    (folder / "config.json").write_text(json.dumps(MODEL), encoding="utf-8")
    arguments = EngineArgs(model=str(folder), skip_tokenizer_init=True, enable_prefix_caching=False)
    return arguments.create_engine_config()


def configuration_of(tier: Tier) -> VllmConfig:
    """The tier's limits as vLLM settings; one of vLLM's blocks is its null block, which holds no tokens."""
    config = copy.copy(configuration())
    limits = tier.limits
    config.model_config = copy.copy(config.model_config)
    config.model_config.max_model_len = limits.max_model_len
    config.cache_config = copy.copy(config.cache_config)
    config.cache_config.block_size = limits.block_size
    config.cache_config.num_gpu_blocks = limits.kv_blocks + 1
    scheduling = copy.copy(config.scheduler_config)
    scheduling.max_num_seqs = limits.max_num_seqs
    scheduling.max_num_batched_tokens = limits.max_num_batched_tokens
    scheduling.enable_chunked_prefill = limits.chunked_prefill
    scheduling.async_scheduling = limits.async_scheduling
    scheduling.scheduler_reserve_full_isl = limits.reserve_full_prompt
    scheduling.verify_max_model_len(limits.max_model_len)
    config.scheduler_config = scheduling
    return config


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
    composition: tuple[int, int, int, int] = (0, 0, 0, 0)  # decodes, their context, prefill tokens and work
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
        decodes = context = prefill_tokens = work = 0
        sampled: list[list[int]] = []
        for name, tokens in batch.num_scheduled_tokens.items():
            sequence, held = self.sequences[int(name)], computed[name]
            if sequence.decoding:
                decodes, context = decodes + 1, context + held
            else:
                prefill_tokens, work = prefill_tokens + tokens, work + _prefill_work(tokens, held)
            sampled.append(self._sample(sequence, held + tokens))
        composition = (decodes, context, prefill_tokens, work)
        start_s = max(self.now_s, self.free_s)
        self.free_s = start_s + self._seconds(*composition)
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

    def _seconds(self, decodes: int, context: int, prefill_tokens: int, work: int) -> float:
        model = self.step_time
        return (
            model.b0_s
            + model.b1_s_per_token * (decodes + prefill_tokens)
            + model.b2_s_per_context_token * context
            + model.b3_s_per_attention_unit * work
        )


def _prefill_work(tokens: int, context: int) -> int:
    """Pairs of a computed token and a token it attends to, counted one row at a time."""
    return sum(range(context + 1, context + tokens + 1))


class VirtualCore(EngineCore):  # type: ignore[misc]
    """An engine core fed from a list of arrivals; ``run`` is the busy loop of vLLM's ``EngineCoreProc``.

    ``runner_v2`` lets the scheduler serve vLLM's second model runner, the default where Triton works.
    """

    def __init__(
        self,
        tier: Tier,
        sequences: list[Sequence],
        *,
        runner_v2: bool = False,
        prefix_caching: bool = False,
    ) -> None:
        config = configuration_of(tier)
        config.cache_config.enable_prefix_caching = prefix_caching
        block_size = tier.limits.block_size
        attention = FullAttentionSpec(block_size=block_size, num_kv_heads=1, head_size=8, dtype=torch.float32)
        self.vllm_config = config
        self.log_stats = False
        self._weight_version = "default"
        self.scheduler = config.scheduler_config.get_scheduler_cls()(
            vllm_config=config,
            kv_cache_config=KVCacheConfig(
                config.cache_config.num_gpu_blocks, [], [KVCacheGroupSpec(["layer"], attention)]
            ),
            structured_output_manager=StructuredOutputManager(config),
            block_size=block_size,
        )
        self.scheduler.use_v2_model_runner = runner_v2
        self.request_block_hasher = _hasher(block_size) if prefix_caching else None
        self.executor = self.model_executor = VirtualExecutor(tier.step_time, sequences)
        self.batch_queue_size = config.max_concurrent_batches
        self.batch_queue: deque[Any] | None = (
            deque(maxlen=self.batch_queue_size) if self.batch_queue_size > 1 else None
        )
        self.step_fn = self.step if self.batch_queue is None else self.step_with_batch_queue
        self.is_mm_encoder_only = self.is_pooling_model = self.check_for_draft_tokens = False
        self.async_scheduling = config.scheduler_config.async_scheduling
        self.aborts_queue: queue.Queue[list[str]] = queue.Queue()
        self.formations: list[Formation] = []
        self._record_formations()

    def run(self) -> None:
        """Serve every sequence; those that have arrived are taken in before each step of the core."""
        sequences = self.executor.sequences
        pending = deque(sorted(sequences, key=lambda sequence: (sequence.at_s, sequence.slot)))
        while pending or self.scheduler.has_requests() or self.batch_queue:
            if not (self.scheduler.has_requests() or self.batch_queue):
                self.executor.now_s = max(self.executor.now_s, pending[0].at_s)
            while pending and pending[0].at_s <= self.executor.now_s:
                self.scheduler.add_request(self._request(pending.popleft()))
            outputs, _ = self.step_fn()
            for client in (outputs or {}).values():
                self._deliver(client.outputs)
        for sequence in sequences:
            assert sequence.received == sequence.output, f"vLLM left {sequence} unfinished"

    def _deliver(self, outputs: list[Any]) -> None:
        for output in outputs:
            sequence = self.executor.sequences[int(output.request_id)]
            sequence.received += len(output.new_token_ids)
            if sequence.received == len(output.new_token_ids) > 0:
                sequence.first_token_s = self.executor.now_s
            if output.finish_reason is not None:
                sequence.done_s = self.executor.now_s

    def _record_formations(self) -> None:
        scheduler, form = self.scheduler, self.scheduler.schedule

        def recorded(throttle_prefills: bool = False) -> SchedulerOutput:
            preemptions = {name: request.num_preemptions for name, request in scheduler.requests.items()}
            batch = form(throttle_prefills)
            for name, request in scheduler.requests.items():
                self.executor.sequences[int(name)].preemptions += request.num_preemptions - preemptions[name]
            now_s = self.executor.now_s
            for name in batch.num_scheduled_tokens:
                sequence = self.executor.sequences[int(name)]
                if math.isnan(sequence.first_scheduled_s):
                    sequence.first_scheduled_s = now_s
            self.formations.append(
                Formation(
                    now_s,
                    tuple((int(name), tokens) for name, tokens in batch.num_scheduled_tokens.items()),
                    tuple(int(request.request_id) for request in scheduler.running),
                    tuple(int(request.request_id) for request in scheduler.waiting),
                    scheduler.kv_cache_manager.block_pool.get_num_free_blocks(),
                )
            )
            return batch

        scheduler.schedule = recorded

    def _request(self, sequence: Sequence) -> Request:
        """No two prompts share their first token, so none shares a block with another."""
        return Request(
            request_id=str(sequence.slot),
            prompt_token_ids=[FIRST_PROMPT + sequence.slot] + [TOKEN] * (sequence.prompt - 1),
            sampling_params=SamplingParams(max_tokens=sequence.max_tokens, stop_token_ids=[STOP]),
            pooling_params=None,
            arrival_time=sequence.at_s,
            block_hasher=self.request_block_hasher,
        )


def _hasher(block_size: int) -> Callable[[Request], list[Any]]:
    init_none_hash(sha256)
    hasher: Callable[[Request], list[Any]] = get_request_block_hasher(block_size, sha256)
    return hasher
