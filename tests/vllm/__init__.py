"""The engine beside vLLM's own scheduler, core loop and requests; only the model is made up."""

from __future__ import annotations

import os

# Read when vLLM is imported: no hub, no usage report, a small cache, no log lines between results.
for name, value in (
    ("HF_HUB_OFFLINE", "1"),
    ("VLLM_NO_USAGE_STATS", "1"),
    ("DO_NOT_TRACK", "1"),
    ("VLLM_CPU_KVCACHE_SPACE", "1"),
    ("VLLM_LOGGING_LEVEL", "ERROR"),
):
    os.environ.setdefault(name, value)
