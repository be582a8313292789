"""The columns that each step-time model multiplies its coefficients with, and the steps they are of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rbx.config.pool import StepTimeA, StepTimeB, StepTimeC, StepTimeModel
from rbx.engine.step_trace import StepTrace
from rbx.errors import DatasetError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

# Coefficients by model as the keys of a pool file, the simplest model first.
COEFFICIENTS = {
    name: tuple(key for key in model.model_fields if key not in ("feature_set", *StepTimeModel.model_fields))
    for name, model in (("C", StepTimeC), ("A", StepTimeA), ("B", StepTimeB))
}
# What each coefficient is multiplied with, for messages.
TERMS = {
    "b0_s": "steps",
    "prefill_s_per_token": "prefill tokens",
    "decode_s_per_seq": "decoding sequences",
    "context_s_per_token": "decode context",
    "chunk_s_per_squared_token": "squared chunk lengths",
    "cross_s_per_token_pair": "chunk tokens × context",
    "b1_s_per_token": "tokens",
    "b2_s_per_context_token": "decode context",
    "b3_s_per_attention_unit": "prefill attention work",
}
WITHOUT_CONTEXT = ("C",)

DECODE_ONLY, MIXED, PREFILL_ONLY = 0, 1, 2
KINDS = ("decode-only", "mixed", "prefill-only")


@dataclass(frozen=True)
class Steps:
    """N steps that a model can be fitted to or tried on; each column (N,).

    ``block`` numbers stretches of time, never across traces; ``kind`` indexes ``KINDS``. ``sums`` (N, 3)
    are decode context, Σ chunk² and Σ chunk·context, or None where a trace lacks them.
    """

    seconds: Floats
    prefill_tokens: Floats
    decodes: Floats
    sums: Floats | None
    block: Ints
    kind: Ints

    def __len__(self) -> int:
        """Number of steps."""
        return len(self.seconds)

    @property
    def feature_sets(self) -> tuple[str, ...]:
        """The models that these columns suffice for, the simplest first."""
        return WITHOUT_CONTEXT if self.sums is None else tuple(COEFFICIENTS)

    def columns(self, feature_set: str) -> Floats:
        """Design matrix (N, coefficients) in the order of ``COEFFICIENTS``."""
        ones = np.ones(len(self))
        if feature_set == "C":
            return np.column_stack([ones, self.prefill_tokens, self.decodes])
        if self.sums is None:
            raise DatasetError(f"model {feature_set} needs the context sums of each step; the trace has none")
        context, squared, cross = self.sums.T
        if feature_set == "A":
            # Σ n·c + n(n+1)/2 over the prompt chunks.
            work = cross + (squared + self.prefill_tokens) / 2
            return np.column_stack([ones, self.prefill_tokens + self.decodes, context, work])
        return np.column_stack([ones, self.prefill_tokens, self.decodes, context, squared, cross])

    def at(self, rows: NDArray[np.bool_]) -> Steps:
        """The steps of a mask (N,)."""
        return Steps(
            seconds=self.seconds[rows],
            prefill_tokens=self.prefill_tokens[rows],
            decodes=self.decodes[rows],
            sums=None if self.sums is None else self.sums[rows],
            block=self.block[rows],
            kind=self.kind[rows],
        )


def usable_steps(traces: Sequence[StepTrace], block_s: float) -> Steps:
    """All steps but each trace's first, which pays for compilation and warm-up.

    Raises ``DatasetError`` where one trace has the context sums and another has not.
    """
    bare = [trace.path for trace in traces if trace.context is None]
    if 0 < len(bare) < len(traces):
        raise DatasetError(
            f"{bare[0]}: no context sums, but {traces[0].path if traces[0].context else traces[-1].path} has "
            "them; fit traces of one kind at a time"
        )
    parts = [_of_trace(trace, block_s) for trace in traces]
    offset = 0
    blocks = []
    for part in parts:
        _, numbered = np.unique(part.block, return_inverse=True)
        blocks.append(numbered + offset)
        offset += int(numbered.max(initial=-1)) + 1
    return Steps(
        seconds=np.concatenate([part.seconds for part in parts]),
        prefill_tokens=np.concatenate([part.prefill_tokens for part in parts]),
        decodes=np.concatenate([part.decodes for part in parts]),
        sums=None if bare else np.concatenate([part.sums for part in parts if part.sums is not None]),
        block=np.concatenate(blocks),
        kind=np.concatenate([part.kind for part in parts]),
    )


def _of_trace(trace: StepTrace, block_s: float) -> Steps:
    prefill, decodes = trace.prefill_tokens, trace.decodes
    kind = np.where(prefill == 0, DECODE_ONLY, np.where(decodes == 0, PREFILL_ONLY, MIXED))
    sums = None
    if trace.context is not None:
        columns = (
            trace.context.decode_context_tokens,
            trace.context.prefill_chunk_squared_tokens,
            trace.context.prefill_cross_tokens,
        )
        sums = np.column_stack(columns).astype(np.float64)
    block = np.floor((trace.start_s - trace.start_s[0]) / block_s).astype(np.int64)
    every = Steps(trace.interval_s, prefill.astype(np.float64), decodes.astype(np.float64), sums, block, kind)
    return every.at(np.arange(len(trace)) > 0)
