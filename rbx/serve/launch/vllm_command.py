"""The command line and the environment of one vLLM server, from a tier's limits."""

from __future__ import annotations

from pathlib import Path

from rbx.config.launch import LocalTier
from rbx.config.pool import Tier

SCHEDULER = "rbx.serve.plugin.scheduler.PublishingScheduler"
# Every spelling of a flag that stands for one of ours.
_SPELLINGS = {
    "--tensor-parallel-size": ("-tp",),
    "--enable-chunked-prefill": ("--no-enable-chunked-prefill",),
    "--async-scheduling": ("--no-async-scheduling",),
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
    ]
    if how.gpus_of(tier) > 1:
        ours.append(("--tensor-parallel-size", str(how.gpus_of(tier))))
    if not limits.chunked_prefill:
        ours.append(("--no-enable-chunked-prefill",))
    if not limits.async_scheduling:
        ours.append(("--no-async-scheduling",))
    given = {flag.partition("=")[0] for flag in how.flags}
    fixed = ["--served-model-name", tier.model, "--host", host, "--port", str(port)]
    if publish_state:
        # The publishing scheduler refuses what the engine model does not cover.
        fixed += ["--scheduler-cls", SCHEDULER]
        ours.append(("--no-enable-prefix-caching",))
    left = [word for flag in ours if not given & _names(flag[0]) for word in flag]
    return [*how.command, "serve", how.model or tier.model, *fixed, *left, *how.flags]


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
