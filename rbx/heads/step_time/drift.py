"""How much slower an instance runs now than when its step times were fitted."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

from rbx.engine.instance_profile import StepCoefficients
from rbx.errors import EngineError

SLOWEST, FASTEST = 2.0, 0.5


@dataclass
class DriftFactor:
    """g = moving average of measured over predicted step time, within [0.5, 2].

    Each ratio is first held within [g/2, 2g], so that a stall, however long, moves g by no more than a
    step of twice the length does. ``weight`` is that of the newest step: 0.05 forgets half in 14 steps.
    Raises ``EngineError`` for a weight outside (0, 1] or a factor outside [0.5, 2].
    """

    weight: float = 0.05
    factor: float = 1.0

    def __post_init__(self) -> None:
        """Refuse values out of range."""
        if not 0.0 < self.weight <= 1.0:
            raise EngineError(f"weight is {self.weight}; it must lie above 0 and be at most 1")
        if not FASTEST <= self.factor <= SLOWEST:
            raise EngineError(f"factor is {self.factor}; it must lie in [{FASTEST:g}, {SLOWEST:g}]")

    def observe(self, actual_s: float, predicted_s: float) -> float:
        """Take in one step, predicted with the coefficients as fitted; returns the new factor.

        Raises ``EngineError`` for a time that is zero, negative or not finite.
        """
        for name, value in (("actual_s", actual_s), ("predicted_s", predicted_s)):
            if not (math.isfinite(value) and value > 0.0):
                raise EngineError(f"{name} is {value}; a step takes a finite time above 0")
        ratio = min(max(actual_s / predicted_s, self.factor / 2), self.factor * 2)
        moved = self.factor + self.weight * (ratio - self.factor)
        self.factor = min(max(moved, FASTEST), SLOWEST)
        return self.factor

    def scaled(self, coefficients: StepCoefficients) -> StepCoefficients:
        """``coefficients`` times the factor; feature set and fit stay those of the fit."""
        seconds = tuple(self.factor * value for value in coefficients.seconds)
        return dataclasses.replace(coefficients, seconds=seconds)
