"""Step traces whose true step times are known, from batches drawn request by request."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rbx.engine.step_trace import StepTrace, read_step_trace, write_step_trace

# Seconds per step, token, token of decode context, unit of prefill attention.
A = (7e-3, 2e-5, 5e-8, 4e-9)
# Seconds per step, prompt token, decode, token of decode context, squared chunk, chunk token × context.
B = (9e-3, 1e-5, 2e-4, 4e-8, 6e-9, 1e-9)
C = (8e-3, 2e-5, 1.5e-4)


@dataclass(frozen=True)
class Scene:
    """How many steps, how noisy, and which of them stall; ``contexts=False`` leaves the sums out."""

    n: int = 3000
    noise: float = 0.0
    stall_share: float = 0.0
    stall_s: float = 0.3
    seed: int = 0
    contexts: bool = True


@dataclass(frozen=True)
class Drawn:
    """A trace on disk and what no recorder knows: its steps without noise and stalls, and the stalls."""

    trace: StepTrace
    clean_s: NDArray[np.float64]
    stalled: NDArray[np.bool_]


def draw(folder: Path, model: tuple[float, ...], scene: Scene, name: str = "trace") -> Drawn:
    """A trace of ``model`` (A by its four coefficients, B by six, C by three)."""
    rng = np.random.default_rng(scene.seed)
    rows, clean = [], []
    for _ in range(scene.n):
        contexts, chunks = _batch(rng)
        rows.append(_row(contexts, chunks))
        clean.append(price(model, contexts, chunks))
    clean_s = np.array(clean)
    stalled = rng.random(scene.n) < scene.stall_share
    took_s = clean_s * np.exp(scene.noise * rng.standard_normal(scene.n) - scene.noise**2 / 2)
    took_s = took_s + stalled * scene.stall_s * (0.5 + rng.random(scene.n))
    end_s = 100.0 + np.cumsum(took_s)
    # As under asynchronous scheduling, a batch is formed when the one before starts.
    ends = np.concatenate([[100.0], end_s])
    start_s = np.concatenate([[100.0, 100.0], ends[1:-2]])
    sums = ("decode_context_tokens", "prefill_chunk_squared_tokens", "prefill_cross_tokens")
    columns: dict[str, ArrayLike | None] = {"start_s": start_s, "end_s": end_s}
    for at, column in enumerate(("decodes", "prefill_tokens", "prefill_requests", *sums)):
        columns[column] = None if column in sums and not scene.contexts else [row[at] for row in rows]
    path = folder / f"{name}.parquet"
    write_step_trace(path, columns, {"engine": {"max_num_seqs": 64}})
    return Drawn(read_step_trace(path), clean_s, stalled)


def price(model: tuple[float, ...], contexts: list[int], chunks: list[tuple[int, int]]) -> float:
    """Seconds of a step, request by request; ``chunks`` are (tokens, computed before)."""
    if len(model) == 4:
        b0, b1, b2, b3 = model
        decoding = sum(b1 + b2 * context for context in contexts)
        return b0 + decoding + sum(b1 * n + b3 * (n * c + n * (n + 1) / 2) for n, c in chunks)
    b0, prefill, decode, context_s, squared, cross = (*model, 0.0, 0.0, 0.0)[:6]
    decoding = sum(decode + context_s * context for context in contexts)
    return b0 + decoding + sum(prefill * n + squared * n * n + cross * n * c for n, c in chunks)


def _batch(rng: np.random.Generator) -> tuple[list[int], list[tuple[int, int]]]:
    """Contexts of up to 48 decodes and up to three chunks; one in twelve steps has no decode."""
    contexts = rng.integers(20, 3000, rng.integers(1, 49)).tolist()
    kind = rng.random()
    if kind < 0.6:
        return contexts, []
    chunks = [(int(rng.integers(1, 1500)), int(rng.integers(0, 3)) * 512) for _ in range(rng.integers(1, 4))]
    return contexts if kind < 0.92 else [], chunks


def _row(contexts: list[int], chunks: list[tuple[int, int]]) -> tuple[int, ...]:
    return (
        len(contexts),
        sum(n for n, _ in chunks),
        len(chunks),
        sum(contexts),
        sum(n * n for n, _ in chunks),
        sum(n * c for n, c in chunks),
    )
