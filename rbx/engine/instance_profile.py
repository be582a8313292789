"""What of an instance does not change from step to step: its limits and what its steps cost."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from rbx.config.pool import EngineLimits, Tier
from rbx.engine import instance_columns as inst
from rbx.engine.state import Floats, Ints, pack_limits
from rbx.errors import EngineError

# Terms of a step's price by the name of the feature set; see ``step_time`` for those of A.
FEATURE_SETS = {"A": ("step", "token", "decode context token", "prefill attention unit")}


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


@dataclass(frozen=True)
class InstanceProfile:
    """Limits and step price of one instance, as every snapshot of it refers to them."""

    limits: EngineLimits
    coefficients: StepCoefficients

    @classmethod
    def of(cls, tier: Tier) -> InstanceProfile:
        """The profile that a pool file declares."""
        model = tier.step_time
        slopes = (model.b1_s_per_token, model.b2_s_per_context_token, model.b3_s_per_attention_unit)
        return cls(tier.limits, StepCoefficients(model.feature_set, model.source, (model.b0_s, *slopes)))

    @cached_property
    def limits_row(self) -> Ints:
        """The limits as the first columns of ``EngineState.counts``."""
        row = np.zeros(inst.RESERVE + 1, dtype=np.int64)
        pack_limits(row, self.limits)
        return row

    @cached_property
    def coefficients_row(self) -> Floats:
        """The coefficients as the first columns of ``EngineState.times``."""
        return np.array(self.coefficients.seconds)
