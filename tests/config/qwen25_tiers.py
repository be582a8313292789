"""The derivation of docs/pools.md, written out: what each tier's numbers follow from."""

from __future__ import annotations

import gzip
import json
import math
from csv import DictReader
from dataclasses import dataclass
from pathlib import Path

GIB = 2**30
RESERVE_GIB_PER_GPU = 1.5
CONTEXT_TOKENS = 500
BLOCK_TOKENS = 16


@dataclass(frozen=True)
class Gpu:
    """Nameplate memory, bandwidth and dense fp16 tensor FLOP/s."""

    memory_gib: int
    bandwidth_gb_s: float
    tflops: float


PROFILED = Gpu(80, 2039, 312)
GPUS = {
    "A100-SXM4-40GB": Gpu(40, 1555, 312),
    "V100-SXM2-16GB": Gpu(16, 900, 125),
    "A30-24GB": Gpu(24, 933, 165),
}


@dataclass(frozen=True)
class Architecture:
    """Qwen2.5: grouped-query attention with heads of 128, gated MLP, biases on Q, K and V."""

    hidden: int
    intermediate: int
    layers: int
    heads: int
    kv_heads: int
    vocabulary: int
    tied: bool = False

    @property
    def parameters(self) -> int:
        width, kv_width = self.heads * 128, self.kv_heads * 128
        attention = (self.hidden + 1) * (width + 2 * kv_width) + width * self.hidden
        layer = attention + 3 * self.hidden * self.intermediate + 2 * self.hidden
        embeddings = self.vocabulary * self.hidden * (1 if self.tied else 2)
        return self.layers * layer + embeddings + self.hidden

    @property
    def kv_bytes_per_token(self) -> int:
        return 2 * self.layers * self.kv_heads * 128 * 2


ARCHITECTURES = {
    "3B": Architecture(2048, 11008, 36, 16, 2, 151_936, tied=True),
    "7B": Architecture(3584, 18944, 28, 28, 4, 152_064),
    "14B": Architecture(5120, 13824, 48, 40, 8, 152_064),
    "32B": Architecture(5120, 27648, 64, 40, 8, 152_064),
    "72B": Architecture(8192, 29568, 80, 64, 8, 152_064),
}


@dataclass(frozen=True)
class Deployment:
    """How a tier is served; ``table1_tpot_ms`` is the paper's time per output token, if it has one."""

    size: str
    gpu: str
    gpus: int
    utilization: float
    table1_tpot_ms: float | None


DEPLOYMENTS = {
    "3b-a30": Deployment("3B", "A30-24GB", 1, 0.90, 10.2),
    "7b-a30": Deployment("7B", "A30-24GB", 1, 0.90, 19.6),
    "14b-v100x4": Deployment("14B", "V100-SXM2-16GB", 4, 0.85, 13.9),
    "32b-a100x2": Deployment("32B", "A100-SXM4-40GB", 2, 0.95, None),
    "72b-a100x4": Deployment("72B", "A100-SXM4-40GB", 4, 0.95, 41.6),
}


class Profiles:
    """Fits and points of the composed A100-80GB step times."""

    def __init__(self, folder: Path) -> None:
        fits = json.loads((folder / "qwen25_step_time_fits.json").read_text())
        self._fits: dict[tuple[str, int], dict[str, float]] = {
            (fit["model"], fit["tp"]): fit for fit in fits if fit["gpu"] == "A100-SXM4-80GB"
        }
        with gzip.open(folder / "qwen25_step_time_grid.csv.gz", "rt", newline="") as file:
            self._rows = [row for row in DictReader(file) if row["gpu"] == "A100-SXM4-80GB"]

    def fit(self, deployment: Deployment) -> dict[str, float]:
        return self._fits[f"Qwen2.5-{deployment.size}", deployment.gpus]

    def decode_ms(self, deployment: Deployment, context: int) -> dict[int, float]:
        """Decode step by batch at one context, on the deployment's GPU."""
        scale = PROFILED.bandwidth_gb_s / GPUS[deployment.gpu].bandwidth_gb_s
        rows = self._points(deployment, "decode")
        return {
            int(row["batch"]): float(row["ms"]) * scale
            for row in rows
            if row["ctx_or_tokens"] == str(context)
        }

    def prefill_ms(self, deployment: Deployment) -> dict[int, float]:
        """Prefill by tokens, on the deployment's GPU."""
        scale = PROFILED.tflops / GPUS[deployment.gpu].tflops
        rows = self._points(deployment, "prefill")
        return {int(row["ctx_or_tokens"]): float(row["ms"]) * scale for row in rows}

    def points_ms(self, size: str, gpus: int) -> dict[tuple[str, int, int], float]:
        """Step by (phase, batch, context or prompt tokens) on the profiled GPU itself."""
        return {
            (row["phase"], int(row["batch"]), int(row["ctx_or_tokens"])): float(row["ms"])
            for row in self._rows
            if (row["model"], row["tp"]) == (f"Qwen2.5-{size}", str(gpus))
        }

    def _points(self, deployment: Deployment, phase: str) -> list[dict[str, str]]:
        key = (f"Qwen2.5-{deployment.size}", str(deployment.gpus), phase)
        return [row for row in self._rows if (row["model"], row["tp"], row["phase"]) == key]


@dataclass(frozen=True)
class Derived:
    b0_s: float
    b1_s_per_token: float
    b2_s_per_context_token: float
    b3_s_per_attention_unit: float
    tpot_s: float
    kv_blocks: int


def profiled_tpot_ms(profiles: Profiles, deployment: Deployment) -> float:
    fit = profiles.fit(deployment)
    scale = PROFILED.bandwidth_gb_s / GPUS[deployment.gpu].bandwidth_gb_s
    return scale * (fit["a"] + fit["b"] + fit["c"] * CONTEXT_TOKENS / 1000)


def derive(profiles: Profiles, deployment: Deployment) -> Derived:
    gpu, model, fit = GPUS[deployment.gpu], ARCHITECTURES[deployment.size], profiles.fit(deployment)
    decode_scale = PROFILED.bandwidth_gb_s / gpu.bandwidth_gb_s
    prefill_scale = PROFILED.tflops / gpu.tflops
    tpot_ms = deployment.table1_tpot_ms
    if tpot_ms is None:
        largest = DEPLOYMENTS["72b-a100x4"]
        assert largest.table1_tpot_ms is not None
        lift = largest.table1_tpot_ms / profiled_tpot_ms(profiles, largest)
        tpot_ms = lift * profiled_tpot_ms(profiles, deployment)
    b1 = fit["p1"] * prefill_scale * 1e-6
    b2 = fit["c"] * decode_scale * 1e-6
    memory = deployment.gpus * gpu.memory_gib * GIB
    reserve = deployment.gpus * RESERVE_GIB_PER_GPU * GIB
    free = deployment.utilization * memory - 2 * model.parameters - reserve
    return Derived(
        b0_s=tpot_ms / 1000 - b1 - CONTEXT_TOKENS * b2,
        b1_s_per_token=b1,
        b2_s_per_context_token=b2,
        b3_s_per_attention_unit=2 * fit["p2"] * prefill_scale * 1e-9,
        tpot_s=tpot_ms / 1000,
        kv_blocks=math.floor(free / (BLOCK_TOKENS * model.kv_bytes_per_token)),
    )
