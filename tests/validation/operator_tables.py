"""Step times composed from measured operators: an L40S's, carried over to an RTX 4090 by specification.

No table of an RTX 4090 exists; the L40S is of the same generation. Each measured time is multiplied by
the ratio of the two cards' rooflines for that operator: by bandwidth where it is bound by memory, by
dense bf16 FLOP/s where it is bound by compute. What the L40S loses to its roofline, the other card is
taken to lose as well. Nothing of the recorded run goes in.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.interpolate import RegularGridInterpolator

Floats = NDArray[np.float64]

FOLDER = Path("profiles") / "aiconfigurator" / "l40s"
BYTES = 2  # bf16


@dataclass(frozen=True)
class Chip:
    """Nameplate bandwidth and dense bf16 tensor rate with fp32 accumulation."""

    bytes_per_s: float
    flop_per_s: float

    def roofline_s(self, flop: float, moved: float) -> float:
        """Least time for this much arithmetic and memory traffic."""
        return max(flop / self.flop_per_s, moved / self.bytes_per_s)


L40S = Chip(864e9, 362.05e12)
RTX_4090 = Chip(1008e9, 165.2e12)
# Elementwise kernels are not in the tables: the profiles' own rule of thumb, a share of the bandwidth and
# a latency each.
ELEMENTWISE_SHARE, ELEMENTWISE_LATENCY_S, ELEMENTWISE_KERNELS = 0.8, 3e-6, 4


@dataclass(frozen=True)
class Decoder:
    """A dense model with grouped-query attention and a gated MLP."""

    layers: int = 32
    hidden: int = 4096
    intermediate: int = 14336
    heads: int = 32
    kv_heads: int = 8
    head_size: int = 128
    vocabulary: int = 128256

    @property
    def matrices(self) -> tuple[tuple[int, int], ...]:
        """(n, k) of a layer's projections: QKV, output, gate and up, down."""
        width, kv_width = self.heads * self.head_size, self.kv_heads * self.head_size
        return (
            (width + 2 * kv_width, self.hidden),
            (self.hidden, width),
            (2 * self.intermediate, self.hidden),
            (self.hidden, self.intermediate),
        )

    @property
    def elementwise_bytes(self) -> int:
        """A layer's traffic per token outside of projections and attention: norms, rotation, cache, gate."""
        width, kv_width = self.heads * self.head_size, self.kv_heads * self.head_size
        norms, rotation, cache = 8 * self.hidden, 2 * (width + kv_width), 4 * kv_width
        return BYTES * (norms + rotation + cache + 3 * self.intermediate)


LLAMA_3_1_8B = Decoder()


@dataclass(frozen=True)
class OperatorTables:
    """Measured seconds of matrix products and attention on ``source``, priced for ``target``."""

    gemm: pd.DataFrame
    prefill: pd.DataFrame
    decode: pd.DataFrame
    model: Decoder = LLAMA_3_1_8B
    source: Chip = L40S
    target: Chip = RTX_4090

    @classmethod
    def read(cls, data: Path) -> OperatorTables:
        """The tables in the shared data folder, for this model's heads in bf16."""
        gemm = pd.read_parquet(data / FOLDER / "gemm" / "gemm_perf.parquet")
        attention = [
            pd.read_parquet(data / FOLDER / "attention" / f"{name}_attention_perf.parquet").query(
                "num_heads == 32 and num_key_value_heads == 8 and head_dim == 128 and window_size == 0 "
                "and kv_cache_dtype == 'bfloat16' and kernel_source == 'vllm_flash_attn_fa2'"
            )
            for name in ("context", "generation")
        ]
        prefill, decode = attention
        return cls(gemm.query("gemm_dtype == 'bfloat16'"), prefill, decode)

    def step_s(self, decodes: int, context: int, chunk: int, computed: int) -> float:
        """A step of ``decodes`` over ``context`` tokens in all, and one chunk behind computed tokens."""
        layer = sum(self.gemm_s(decodes + chunk, n, k) for n, k in self.model.matrices)
        layer += self._elementwise_s(decodes + chunk)
        layer += self.decode_attention_s(decodes, context) + self.prefill_attention_s(chunk, computed)
        sampled = decodes + (chunk > 0)
        return self.model.layers * layer + self.gemm_s(sampled, self.model.vocabulary, self.model.hidden)

    def gemm_s(self, m: int, n: int, k: int) -> float:
        """A product (m, k) × (k, n): between the measured shapes, linear in each dimension."""
        measured = sum(
            weight_n * weight_k * self._curve_s(m, near_n, near_k)
            for near_n, weight_n in _neighbours(self._shapes[0], n)
            for near_k, weight_k in _neighbours(self._shapes[1], k)
        )
        flop, moved = 2.0 * m * n * k, float(BYTES) * (m * k + k * n + m * n)
        return measured * self._carried(flop, moved)

    def prefill_attention_s(self, tokens: int, computed: int) -> float:
        """A chunk behind computed tokens: the whole prompt up to its end less what came before."""
        if tokens == 0:
            return 0.0
        measured = self._prompt_s(tokens + computed) - (self._prompt_s(computed) if computed else 0.0)
        width, pairs = self.model.heads * self.model.head_size, tokens * computed + tokens**2 / 2
        moved = float(BYTES) * (2 * tokens * width + 2 * (tokens + computed) * width / 4)
        return measured * self._carried(4.0 * width * pairs, moved)

    def decode_attention_s(self, decodes: int, context: int) -> float:
        """``decodes`` sequences of equal length over ``context`` tokens in all; bound by memory."""
        if decodes == 0:
            return 0.0
        grid = self._decode_grid
        point = np.log([decodes, max(1.0, context / decodes)])
        measured = float(np.exp(grid(np.clip(point, *np.transpose([(g[0], g[-1]) for g in grid.grid])))[0]))
        return measured * self.source.bytes_per_s / self.target.bytes_per_s

    def _elementwise_s(self, tokens: int) -> float:
        moved = self.model.elementwise_bytes * tokens
        return moved / (ELEMENTWISE_SHARE * self.target.bytes_per_s) + (
            ELEMENTWISE_KERNELS * ELEMENTWISE_LATENCY_S
        )

    def _carried(self, flop: float, moved: float) -> float:
        return self.target.roofline_s(flop, moved) / self.source.roofline_s(flop, moved)

    @cached_property
    def _curves(self) -> dict[tuple[int, int], tuple[Floats, Floats]]:
        points: dict[tuple[int, int], dict[int, list[float]]] = {}
        columns = (self.gemm[name].tolist() for name in ("m", "n", "k", "latency"))
        for m, n, k, milliseconds in zip(*columns, strict=True):
            points.setdefault((n, k), {}).setdefault(m, []).append(milliseconds / 1000)
        return {
            shape: (np.array(sorted(curve), float), np.array([np.mean(curve[m]) for m in sorted(curve)]))
            for shape, curve in points.items()
        }

    @cached_property
    def _shapes(self) -> tuple[Floats, Floats]:
        n, k = (np.array(sorted(set(self.gemm[name].tolist())), float) for name in ("n", "k"))
        return n, k

    def _curve_s(self, m: int, n: float, k: float) -> float:
        tokens, seconds = self._curves[int(n), int(k)]
        return float(np.interp(m, tokens, seconds))

    @cached_property
    def _prompt_curve(self) -> tuple[Floats, Floats]:
        alone = self.prefill.query("batch_size == 1").groupby("isl")["latency"].mean()
        return alone.index.to_numpy(float), alone.to_numpy() / 1000

    def _prompt_s(self, tokens: int) -> float:
        return float(np.interp(tokens, *self._prompt_curve))

    @cached_property
    def _decode_grid(self) -> RegularGridInterpolator:
        measured = self.decode.query("batch_size <= 256 and step <= 4095")
        table = measured.pivot_table(index="batch_size", columns="step", values="latency")
        axes = np.log(table.index.to_numpy(float)), np.log(table.columns.to_numpy(float) + 1.0)
        return RegularGridInterpolator(axes, np.log(table.to_numpy() / 1000))


def _neighbours(values: Floats, wanted: float) -> list[tuple[float, float]]:
    """The measured sizes around ``wanted`` and their weights; beyond the last two, their straight line."""
    above = int(np.clip(np.searchsorted(values, wanted), 1, len(values) - 1))
    low, high = float(values[above - 1]), float(values[above])
    share = (wanted - low) / (high - low)
    return [(size, weight) for size, weight in ((low, 1.0 - share), (high, share)) if weight]
