"""The command line and the environment of one vLLM server, from a tier's limits."""

from __future__ import annotations

from pathlib import Path

from rbx.config.launch import LocalTier, flag_name
from rbx.config.pool import Tier

SCHEDULER = "rbx.serve.plugin.scheduler.PublishingScheduler"
# Every flag that says what one of ours says, or its contrary.
_SPELLINGS = {
    # Whoever gives the memory of the cache leaves the number of its blocks to vLLM.
    "--num-gpu-blocks-override": (
        "--kv-cache-memory-bytes",
        "--gpu-memory-utilization",
        "--device-memory-utilization",
    ),
    "--tensor-parallel-size": ("-tp",),
    "--enable-chunked-prefill": ("--no-enable-chunked-prefill",),
    "--async-scheduling": ("--no-async-scheduling",),
    "--scheduler-reserve-full-isl": ("--no-scheduler-reserve-full-isl",),
}


def vllm_command(tier: Tier, how: LocalTier, host: str, port: int, publish_state: bool) -> list[str]:
    """``vllm serve`` with what the pool says of the tier, and after it the launch file's flags.

    A flag of the launch file takes the place of the same one here.
    """
    limits = tier.limits
    ours: list[tuple[str, ...]] = [
        ("--max-model-len", str(limits.max_model_len)),
        ("--max-num-seqs", str(limits.max_num_seqs)),
        ("--max-num-batched-tokens", str(limits.max_num_batched_tokens)),
        ("--block-size", str(limits.block_size)),
        ("--num-gpu-blocks-override", str(limits.kv_blocks + 1)),  # one is vLLM's null block
    ]
    if how.gpus_of(tier) > 1:
        ours.append(("--tensor-parallel-size", str(how.gpus_of(tier))))
    if not limits.chunked_prefill:
        ours.append(("--no-enable-chunked-prefill",))
    if not limits.async_scheduling:
        ours.append(("--no-async-scheduling",))
    if not limits.reserve_full_prompt:
        ours.append(("--no-scheduler-reserve-full-isl",))
    given = {flag_name(word) for word in how.flags}
    fixed = ["--served-model-name", tier.model, "--host", host, "--port", str(port)]
    if publish_state:
        # The publishing scheduler refuses what the engine model does not cover.
        fixed += ["--scheduler-cls", SCHEDULER]
        ours.append(("--no-enable-prefix-caching",))
    left = [word for flag in ours if not given & _names(flag[0]) for word in flag]
    return [*how.command, "serve", how.model or tier.model, *fixed, *left, *how.flags]


def given_number(how: LocalTier, flag: str, default: int) -> int | None:
    """What the launch file's flags give for ``flag``, else ``default``; None if it is no plain number."""
    words = list(how.flags)
    given = [
        word.partition("=")[2] if "=" in word else "".join(words[at + 1 : at + 2])
        for at, word in enumerate(words)
        if flag_name(word) == flag
    ]
    if not given:
        return default
    return int(given[-1]) if given[-1].isascii() and given[-1].isdigit() and len(given[-1]) < 10 else None


def vllm_environment(how: LocalTier, devices: tuple[str, ...] | None, state: Path | None) -> dict[str, str]:
    """What the server's environment has beside ours; ``devices`` None leaves the GPUs alone."""
    variables = dict(how.env)
    if devices is not None:
        variables["CUDA_VISIBLE_DEVICES"] = ",".join(devices)
    if state is not None:
        variables["RBX_STATE_DIR"] = str(state)
    return variables


def _names(flag: str) -> set[str]:
    """``flag`` and the flags that say the same or its contrary."""
    groups = ({name, *others} for name, others in _SPELLINGS.items())
    return next((group for group in groups if flag in group), {flag})
