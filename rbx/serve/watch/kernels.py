"""Compiling what a watch calls before the first request comes: half a minute on a new machine."""

from __future__ import annotations

import numpy as np

from rbx.config.gateway import Watch
from rbx.engine.instance_profile import InstanceProfile
from rbx.engine.snapshot_counts import pool_telemetry
from rbx.serve.watch.instance import InstanceWatch

_PAGE = """\
vllm:num_requests_running 1
vllm:num_requests_waiting 1
vllm:kv_cache_usage_perc 0.5
"""


def compile_kernels(profile: InstanceProfile) -> None:
    """Lead requests, a plain one among them, through a watch of their own."""
    watch = InstanceWatch(profile, [], Watch(), 1.0)
    for name in ("ends", "plain", "waits"):
        watch.dispatched(name, 1.0, 1, 1, 1, streams=name != "plain")
    watch.tokens("ends", 2.0, 1)
    for name in ("ends", "plain"):
        watch.ended(name, 2.0)
    watch.page(_PAGE, 2.0, 2.0)
    watch.load(3.0)
    pool_telemetry([watch.best(3.0).reading.snapshot], np.zeros(1, dtype=np.int64))
