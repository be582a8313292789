"""What of an instance does not change from step to step: its limits and what its steps cost."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from rbx.config.pool import EngineLimits, StepTime, Tier
from rbx.engine import instance_columns as inst
from rbx.errors import EngineError

# Terms of a step's price by the name of the feature set, in the order of the pool file's keys. A is the
# model of arXiv 2607.18253; C is what can be fitted where the log shows no contexts.
FEATURE_SETS = {
    "A": ("step", "token", "decode context token", "prefill attention unit"),
    "B": (
        "step", "prefill token", "decode", "decode context token", "squared chunk token",
        "pair of chunk and computed token",
    ),
    "C": ("step", "prefill token", "decode"),
}  # fmt: skip


@dataclass(frozen=True)
class StepCoefficients:
    """Seconds per term of a named feature set, and the fit that they come from.

    The name travels with the numbers: coefficients read as those of another feature set price steps a
    hundred times wrong without any sign of it. Raises ``EngineError`` for an unknown set, a wrong
    number of coefficients, NaN, infinite or negative ones, or a step that costs nothing.
    """

    feature_set: str
    fit_id: str
    seconds: tuple[float, ...]

    def __post_init__(self) -> None:
        """Refuse values out of range."""
        terms = FEATURE_SETS.get(self.feature_set)
        if terms is None:
            known = ", ".join(sorted(FEATURE_SETS))
            raise EngineError(f"feature_set {self.feature_set!r} is unknown; this engine prices {known}")
        if not self.fit_id:
            raise EngineError("fit_id is empty; name the fit that the coefficients come from")
        if len(self.seconds) != len(terms):
            raise EngineError(
                f"feature_set {self.feature_set} has {len(terms)} coefficients ({', '.join(terms)}); "
                f"fit {self.fit_id!r} gives {len(self.seconds)}"
            )
        for term, value in zip(terms, self.seconds, strict=True):
            if not (math.isfinite(value) and value >= 0.0):
                raise EngineError(
                    f"fit {self.fit_id!r}: coefficient per {term} is {value} s; it must be finite and not "
                    "negative"
                )
        if self.seconds[0] == 0.0:
            raise EngineError(f"fit {self.fit_id!r}: coefficient per step is 0 s; every step takes time")

    @classmethod
    def of(cls, step_time: StepTime) -> StepCoefficients:
        """The coefficients of a pool file; its ``source`` names the fit."""
        return cls(step_time.feature_set, step_time.source, step_time.seconds)

    @cached_property
    def as_b(self) -> tuple[float, float, float, float, float, float]:
        """The same prices in the six terms of B, which the engine computes with; exact.

        The attention work of A, n·c + n·(n+1)/2, is n·c + n²/2 + n/2, so b3 splits over three terms.
        """
        if self.feature_set == "A":
            b0, b1, b2, b3 = self.seconds
            return b0, b1 + 0.5 * b3, b1, b2, 0.5 * b3, b3
        if self.feature_set == "C":
            b0, prefill, decode = self.seconds
            return b0, prefill, decode, 0.0, 0.0, 0.0
        b0, prefill, decode, context, squared, cross = self.seconds
        return b0, prefill, decode, context, squared, cross


@dataclass(frozen=True)
class InstanceProfile:
    """Limits and step price of one instance, as every snapshot of it refers to them."""

    limits: EngineLimits
    coefficients: StepCoefficients

    @classmethod
    def of(cls, tier: Tier) -> InstanceProfile:
        """The profile that a pool file declares."""
        return cls(tier.limits, StepCoefficients.of(tier.step_time))

    @cached_property
    def limits_row(self) -> NDArray[np.int64]:
        """The limits as the first columns of ``EngineState.counts``."""
        row, limits = np.zeros(inst.RESERVE + 1, dtype=np.int64), self.limits
        row[inst.MAX_SEQS] = limits.max_num_seqs
        row[inst.TOKEN_BUDGET] = limits.max_num_batched_tokens
        row[inst.MAX_MODEL_LEN] = limits.max_model_len
        row[inst.BLOCK_SIZE] = limits.block_size
        row[inst.TOTAL_BLOCKS] = limits.kv_blocks
        row[inst.CHUNKED] = limits.chunked_prefill
        row[inst.ASYNC] = limits.async_scheduling
        row[inst.RESERVE] = limits.reserve_full_prompt
        return row

    @cached_property
    def coefficients_row(self) -> NDArray[np.float64]:
        """The coefficients as the first columns of ``EngineState.times``."""
        return np.array(self.coefficients.as_b)
