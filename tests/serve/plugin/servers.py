"""Published files of made-up servers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from rbx.engine import snapshot_columns as snap
from rbx.engine.instance_profile import StepCoefficients
from rbx.serve.plugin.layout import ID, ROW_COLUMNS, SNAPSHOT, STEP, published_id
from rbx.serve.plugin.state_file import StateFile

COEFFICIENTS = StepCoefficients("C", "a test", (0.01, 1e-4, 1e-3))
LIMITS: dict[str, int | str] = {
    "max_num_seqs": 4,
    "max_num_batched_tokens": 64,
    "max_model_len": 128,
    "block_size": 16,
    "kv_blocks": 40,
    "chunked_prefill": 1,
    "async_scheduling": 0,
    "reserve_full_prompt": 1,
    "vllm_version": "0.32.0",
    "model": "folder/of/tiny",
    "served_name": "tiny",
}


def state_file(folder: Path, **changes: Any) -> StateFile:
    """An empty published file with room for 8 requests and 16 steps, unless told otherwise."""
    sizes: dict[str, int] = {"row_capacity": 8, "ring_capacity": 16}
    sizes.update({name: changes.pop(name) for name in [*sizes, "rank"] if name in changes})
    return StateFile(folder, {**LIMITS, **changes}, **sizes)


def publish(file: StateFile, version: int, stamp_s: float, waiting: int = 1, **scalars: Any) -> None:
    """Nothing runs; ``waiting`` requests w0, w1, … of 10 + k % 50 prompt tokens wait."""
    rows = np.zeros((waiting, ROW_COLUMNS), dtype=np.int64)
    rows[:, snap.PROMPT] = 10 + np.arange(waiting) % 50
    rows[:, snap.CAP] = 20
    rows[:, ID] = [published_id(f"w{k}", suffixed=False) for k in range(waiting)]
    scalar = np.zeros(1, dtype=SNAPSHOT)
    scalar["version"], scalar["stamp_s"], scalar["free_blocks"] = version, stamp_s, 40
    scalar["requests"], scalar["step_start_s"] = waiting, np.nan
    for name, value in scalars.items():
        scalar[name] = value
    file.publish(scalar, rows)


def execute(file: StateFile, start_s: float, end_s: float, decodes: int = 1, prefill: int = 0) -> None:
    """Add one step to the ring."""
    step = np.zeros(1, dtype=STEP)
    step["start_s"], step["end_s"], step["decodes"] = start_s, end_s, decodes
    step["decode_context_tokens"] = 50 * decodes
    step["prefill_tokens"], step["prefill_chunk_squared_tokens"] = prefill, prefill**2
    step["prefill_requests"] = int(prefill > 0)
    file.append(step)
