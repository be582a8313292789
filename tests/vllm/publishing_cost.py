"""``python -m tests.vllm.publishing_cost``: what publishing costs vLLM's engine loop, per step."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from rbx.config.pool import Tier
from rbx.engine.instance_profile import InstanceProfile
from rbx.serve.state.published import PublishedState
from tests.engine.scenes import tier
from tests.vllm.publications import SCHEDULER
from tests.vllm.virtual_core import VirtualCore
from tests.vllm.virtual_executor import Sequence

CROWDS = ((10, 0), (50, 10), (200, 150))  # running, waiting
WARM_UP, STEPS = 60, 300


def busy_core(running: int, waiting: int) -> tuple[Tier, VirtualCore]:
    """vLLM's asynchronous core loop with so many requests that stay throughout; answers end now and then."""
    server = tier(
        max_num_seqs=running,
        max_num_batched_tokens=8192,
        max_model_len=4096,
        kv_blocks=300 * running,
        block_size=16,
        async_scheduling=True,
    )
    sequences = [Sequence(k, 0.0, 200, 1000 + k, 2000) for k in range(running + waiting)]
    core = VirtualCore(server, sequences, scheduler_cls=SCHEDULER)
    for sequence in sequences:
        core.scheduler.add_request(core._request(sequence))
    return server, core


def timed(call: Callable[..., Any], seconds: list[float]) -> Callable[..., Any]:
    """``call``, noting its time on this thread's processor."""

    def noted(*arguments: Any) -> None:
        began_s = time.thread_time()
        call(*arguments)
        seconds.append(time.thread_time() - began_s)

    return noted


def main() -> int:
    """Print one line for each crowd."""
    print(f"{'running/waiting':16}{'µs per step':>14}{'p90':>8}{'reading, µs':>14}")
    with tempfile.TemporaryDirectory(prefix="rbx-cost-") as folder:
        os.environ["RBX_STATE_DIR"] = folder
        for running, waiting in CROWDS:
            server, core = busy_core(running, waiting)
            for _ in range(WARM_UP):
                core.step_fn()
            publisher, seconds = core.scheduler.publisher, list[float]()
            publisher.formed, publisher.ended = (
                timed(publisher.formed, seconds),
                timed(publisher.ended, seconds),
            )
            for _ in range(STEPS):
                core.step_fn()
            assert publisher.errors == 0
            per_step = 1e6 * np.array(seconds).reshape(STEPS, 2).sum(axis=1)
            state, reads = PublishedState(publisher.file.path, InstanceProfile.of(server).coefficients), []
            for _ in range(STEPS):
                began_s = time.thread_time()
                snapshot = state.read(time.monotonic())
                reads.append(time.thread_time() - began_s)
            assert (snapshot.running, len(snapshot.requests)) == (running, running + waiting)
            figures = (np.median(per_step), np.quantile(per_step, 0.9), 1e6 * np.median(reads))
            print(f"{f'{running}/{waiting}':16}{figures[0]:14.0f}{figures[1]:8.0f}{figures[2]:14.0f}")
            publisher.file.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
