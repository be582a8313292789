"""vLLM settings that change how batches are formed and that the engine does not model, by name.

A pool file that states one of them describes a server whose batches would be others than the simulated
ones, so it is refused with the reason. ``docs/engine.md`` has the same list in prose.
"""

from __future__ import annotations

from collections.abc import Iterable

_PRIORITY = "the priority policy is not modelled; requests are served first come, first served"
_LORA = "LoRA adapters, and their number per batch, are not modelled"
_KV_TRANSFER = "KV transfer and offloading are not modelled"
_ENCODER = "encoder inputs (images, audio) and their cache are not modelled"
_LONG_PREFILL = "a cap on the chunks of long prompts is not modelled"
_BLOCKS = "give kv_blocks = num_gpu_blocks - 1 instead, since one of vLLM's blocks never holds tokens"

UNMODELLED = {
    "enable_prefix_caching": "prefix caching is not modelled; every prompt is computed in full",
    "scheduling_policy": _PRIORITY,
    "policy": _PRIORITY,
    "speculative_config": "speculative decoding is not modelled; a decode step gives one token a request",
    "enable_lora": _LORA,
    "max_loras": _LORA,
    "kv_transfer_config": _KV_TRANSFER,
    "kv_offloading_size": _KV_TRANSFER,
    "ec_transfer_config": _ENCODER,
    "limit_mm_per_prompt": _ENCODER,
    "disable_chunked_mm_input": _ENCODER,
    "structured_outputs_config": "structured output, which waits for its grammar, is not modelled",
    "long_prefill_token_threshold": _LONG_PREFILL,
    "long_prefill_token_threshold_adaptive": _LONG_PREFILL,
    "max_num_active_seqs": "a limit on running requests below max_num_seqs is not modelled",
    "max_num_scheduled_tokens": "a token limit per step below max_num_batched_tokens is not modelled",
    "max_num_queued_reqs": "a server that turns requests away is not modelled",
    "max_num_queued_tokens": "a server that turns requests away is not modelled",
    "watermark": "a share of blocks kept free at admission is not modelled",
    "prefill_schedule_interval": "prefills held back to balance data-parallel ranks are not modelled",
    "pipeline_parallel_size": "pipeline parallelism, which keeps more batches in flight, is not modelled",
    "data_parallel_size": "data parallelism is not modelled; give each rank as an instance of its own",
    "decode_context_parallel_size": "context parallelism, which spreads blocks over GPUs, is not modelled",
    "prefill_context_parallel_size": "context parallelism, which spreads blocks over GPUs, is not modelled",
    "scheduler_cls": "schedulers other than vLLM's own are not modelled",
    "num_gpu_blocks": _BLOCKS,
    "num_gpu_blocks_override": _BLOCKS,
}


def refuse_unmodelled(keys: Iterable[str]) -> None:
    """Raise ``ValueError`` that names every setting of ``keys`` outside the engine's model."""
    found = sorted(set(keys) & UNMODELLED.keys())
    if found:
        reasons = "; ".join(f"{key}: {UNMODELLED[key]}" for key in found)
        raise ValueError(f"{reasons} (docs/engine.md lists what the engine covers)")
