"""How the figures of a claim are written: in the metric's unit, as a signed difference, or as a ratio."""

from __future__ import annotations

from typing import NamedTuple

from rbx.config.claims import BoundClaim, DifferenceClaim, RatioClaim, SignClaim
from rbx.report.claims.study import Judged
from rbx.report.number import UNKNOWN, signed, significant
from rbx.report.table import Write


class Scale(NamedTuple):
    """``write`` writes bare numbers, ``unit`` is what they are in."""

    write: Write
    unit: str

    def written(self, value: float) -> str:
        """A number with its unit."""
        text = self.write(value)
        return f"{text} {self.unit}" if self.unit and text != UNKNOWN else text

    def ends(self, low: float, high: float) -> str:
        """An interval."""
        return f"[{self.write(low)}, {self.write(high)}]"


def scale_of(judged: Judged) -> Scale:
    """The scale of a claim's figures, published and ours."""
    claim, metric = judged.claim, judged.metric
    if isinstance(claim, RatioClaim) or (isinstance(claim, BoundClaim) and claim.over is not None):
        return Scale(significant, "×")
    write, unit = (significant, "") if metric is None else (metric.write, metric.unit)
    is_gap = isinstance(claim, (DifferenceClaim, SignClaim))
    if is_gap or (isinstance(claim, BoundClaim) and claim.minus is not None):
        return Scale(lambda value: signed(write(value)), unit)
    return Scale(write, unit)
