"""vLLM's engine core in virtual time: its schedulers and both of its loops run as installed.

``EngineCore.step`` and ``EngineCore.step_with_batch_queue`` are inherited, as is the choice of the
scheduler class and of the number of batches in flight. ``VirtualExecutor`` stands where the model is.
"""

from __future__ import annotations

import copy
import json
import math
import queue
import tempfile
from collections import deque
from collections.abc import Callable
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
from vllm.v1.request import Request
from vllm.v1.structured_output import StructuredOutputManager

from rbx.config.pool import Tier
from tests.vllm.formations import Formation
from tests.vllm.virtual_executor import STOP, TOKEN, Sequence, VirtualExecutor

FIRST_PROMPT = 100
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


# vLLM is absent where types are checked, so its classes are Any there.
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
        scheduler_cls: str | None = None,
    ) -> None:
        config = configuration_of(tier)
        config.cache_config.enable_prefix_caching = prefix_caching
        config.scheduler_config.scheduler_cls = scheduler_cls
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
