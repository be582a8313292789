"""A real vLLM run kept outside the repository: 300 requests on one RTX 4090, with the engine's own stamps."""

from __future__ import annotations

import csv
import gzip
import json
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rbx.config.pool import EngineLimits, StepTime, Tier

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

FOLDER = Path("validation") / "RTX4090" / "Llama-3.1-8B"


@dataclass(frozen=True)
class Told:
    """What the tool that published the run says of it and of its own simulation, by name of the figure."""

    recorded_ms: float
    simulated_ms: float
    difference_percent: float


@dataclass(frozen=True)
class RecordedRun:
    """N requests in order of arrival; times (N,) in seconds from the first arrival.

    ``arrival_s`` is the client's clock; the engine's is shifted by the smallest difference between arrival
    and queue stamp, so that no request arrives after it was queued. vLLM stamps step boundaries:
    ``queued_s`` when the engine core takes the request in, ``scheduled_s`` when its first batch is formed,
    the rest when steps end. ``generated`` (T,) counts the tokens delivered up to each tick of its log,
    ``tick_s`` (T,), since the one before.
    """

    prompt_tokens: Ints
    output_tokens: Ints
    arrival_s: Floats
    queued_s: Floats
    scheduled_s: Floats
    first_token_s: Floats
    last_token_s: Floats
    tick_s: Floats
    generated: Floats
    limits: EngineLimits
    vllm_version: str
    prefix_caching: bool
    publisher: dict[str, Told]

    @property
    def waiting_at_arrival(self) -> Ints:
        """Requests in the queue when each one arrived, (N,)."""
        before = np.arange(len(self.arrival_s))
        scheduled = np.searchsorted(np.sort(self.scheduled_s), self.arrival_s, side="right")
        return before - np.minimum(before, scheduled)

    def tier(self, step_time: StepTime, **limits: int) -> Tier:
        """The server of the run, as a pool file would say it; ``limits`` replace the recorded ones."""
        return Tier(
            name="llama-3.1-8b-rtx4090",
            model="Llama-3.1-8B",
            gpu="RTX 4090",
            instances=1,
            price_in_usd_per_mtok=0.0,
            price_out_usd_per_mtok=0.0,
            tpot_prior_s=0.03,
            limits=self.limits.model_copy(update=limits),
            step_time=step_time,
        )


def read_run(data: Path) -> RecordedRun:
    """The run in the shared data folder; one of vLLM's blocks is its null block, which holds no tokens."""
    folder = data / FOLDER
    with gzip.open(folder / "vllm" / "requests.jsonl.gz", "rt") as lines:
        requests = sorted((json.loads(line) for line in lines), key=lambda row: float(row["arrival_time"]))
    with gzip.open(folder / "vllm" / "meta.json.gz", "rt") as file:
        meta = json.load(file)
    with gzip.open(folder / "validation" / "summary.txt.gz", "rt") as file:
        publisher = dict(_told(line) for line in file if line.endswith("%\n") and "Diff%" not in line)
    with gzip.open(folder / "vllm" / "timeseries.csv.gz", "rt", newline="") as rows:
        ticks = [(float(row["t"]), float(row["gen_throughput"])) for row in csv.DictReader(rows)]
    columns = {key: np.array([row[key] for row in requests]) for key in requests[0] if key != "request_id"}
    started = datetime.fromisoformat(meta["started_at"].replace("Z", "+00:00")).timestamp()
    arrival_s = columns["arrival_time"] - columns["arrival_time"][0]
    engine_start_s = float(np.min(columns["queued_ts"] - arrival_s))
    config = meta["resolved_config"]
    scheduler, cache = config["scheduler_config"], meta["kv_cache"]
    return RecordedRun(
        prompt_tokens=columns["input_toks"],
        output_tokens=columns["output_toks"],
        arrival_s=arrival_s,
        queued_s=columns["queued_ts"] - engine_start_s,
        scheduled_s=columns["scheduled_ts"] - engine_start_s,
        first_token_s=columns["first_token_ts"] - engine_start_s,
        last_token_s=columns["last_token_ts"] - engine_start_s,
        tick_s=np.array([at_s for at_s, _ in ticks]) - (columns["arrival_time"][0] - started),
        generated=np.array([tokens for _, tokens in ticks]) * meta["tick_seconds"],
        limits=EngineLimits(
            max_num_seqs=scheduler["max_num_seqs"],
            max_num_batched_tokens=scheduler["max_num_batched_tokens"],
            max_model_len=meta["engine_kwargs"]["max_model_len"],
            block_size=cache["block_size"],
            kv_blocks=cache["num_gpu_blocks"] - 1,
            chunked_prefill=scheduler["enable_chunked_prefill"],
            async_scheduling=scheduler["async_scheduling"],
            reserve_full_prompt=scheduler["scheduler_reserve_full_isl"],
        ),
        vllm_version=meta["vllm_version"],
        prefix_caching=cache["enable_prefix_caching"],
        publisher=publisher,
    )


def _told(line: str) -> tuple[str, Told]:
    *name, recorded, simulated, difference = line.split()
    return " ".join(name).lower(), Told(float(recorded), float(simulated), float(difference.strip("%+")))
