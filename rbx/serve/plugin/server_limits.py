"""A vLLM server's limits as rbx names them, and a loud no to settings outside rbx's model."""

from __future__ import annotations

from typing import Any

from rbx.config.unmodelled import refuse_unmodelled

# Where vLLM keeps a setting of UNMODELLED, and the values with which it changes nothing. Those left out
# here are each request's own affair (images, grammars: counted in the snapshots), are another name of a
# setting below, or are no limit of one rank's scheduler (data_parallel_size: each rank publishes alone).
_HARMLESS: dict[str, tuple[str, tuple[Any, ...]]] = {
    "enable_prefix_caching": ("cache_config", (False,)),
    "kv_offloading_size": ("cache_config", (None,)),
    "policy": ("scheduler_config", ("fcfs",)),
    "long_prefill_token_threshold": ("scheduler_config", (0,)),
    "long_prefill_token_threshold_adaptive": ("scheduler_config", (False,)),
    "max_num_active_seqs": ("scheduler_config", (None,)),
    "max_num_scheduled_tokens": ("scheduler_config", (None,)),
    "max_num_queued_reqs": ("scheduler_config", (None,)),
    "max_num_queued_tokens": ("scheduler_config", (None,)),
    "watermark": ("scheduler_config", (0.0,)),
    "prefill_schedule_interval": ("scheduler_config", (1,)),
    "pipeline_parallel_size": ("parallel_config", (1,)),
    "decode_context_parallel_size": ("parallel_config", (1,)),
    "prefill_context_parallel_size": ("parallel_config", (1,)),
    "speculative_config": ("", (None,)),
    "kv_transfer_config": ("", (None,)),
    "ec_transfer_config": ("", (None,)),
}


def refuse_unmodelled_server(config: Any, kv_cache_config: Any) -> None:
    """Raise ``ValueError`` naming each setting of a ``VllmConfig`` whose batches rbx would not form.

    A state whose replay is wrong is worse than none, so the server does not start with it.
    """
    found = []
    for name, (holder, harmless) in _HARMLESS.items():
        value = getattr(getattr(config, holder) if holder else config, name)
        if value not in harmless:
            found.append(name)
    if config.lora_config is not None:
        found.append("enable_lora")
    refuse_unmodelled(found)
    kinds = [type(group.kv_cache_spec).__name__ for group in kv_cache_config.kv_cache_groups]
    if kinds not in (["FullAttentionSpec"], ["MLAAttentionSpec"]):
        raise ValueError(
            f"KV cache groups {kinds}: sliding-window, hybrid and Mamba models are not modelled "
            "(docs/engine.md lists what the engine covers)"
        )


def server_fields(config: Any, vllm_version: str, block_size: int) -> dict[str, int | str]:
    """Fields of ``layout.HEADER`` that tell who the server is and what limits it has."""
    scheduling, model = config.scheduler_config, config.model_config
    served = model.served_model_name
    return {
        "max_num_seqs": scheduling.max_num_seqs,
        "max_num_batched_tokens": scheduling.max_num_batched_tokens,
        "max_model_len": model.max_model_len,
        "block_size": block_size,
        "kv_blocks": config.cache_config.num_gpu_blocks - 1,  # one is the null block
        "chunked_prefill": int(scheduling.enable_chunked_prefill),
        "async_scheduling": int(bool(scheduling.async_scheduling)),
        "reserve_full_prompt": int(scheduling.scheduler_reserve_full_isl),
        "vllm_version": vllm_version,
        "instance_id": str(config.instance_id),
        "model": str(model.model),
        "served_name": str(served[0] if isinstance(served, list) else served),
    }
