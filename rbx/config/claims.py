"""The claims file of ``rbx report --claims``: published statements, and the points of our sweeps beside each.

``docs/claims.md`` says how each kind is judged.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from rbx.config.base import Loaded, Name, StrictModel, Text, chosen_by, load
from rbx.config.claimed_point import BestPoint, FilePoint, PointChoice

Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]
_Above = Annotated[float, Field(gt=0, strict=True, allow_inf_nan=False)]


def _one_line(value: Any) -> Any:
    return " ".join(value.split()) if isinstance(value, str) else value


# Sentences, wherever the lines of the file break.
Words = Annotated[
    str, BeforeValidator(_one_line), Field(min_length=1, max_length=2000, pattern=r"^[^\x00-\x1f\x7f-\x9f]+$")
]


class _Claim(StrictModel):
    """``where`` names table or figure, ``says`` the statement in our words.

    ``role``: ``calibrated`` where pool or grid were fitted to this very number (``why`` says what was),
    else ``predicted``. ``remark`` tells why we differ, and is shown where the claim does not hold.
    ``metric`` is one of those in ``docs/claims.md``; numbers of files need none.
    """

    id: Name
    where: Words
    says: Words
    role: Literal["predicted", "calibrated"] = "predicted"
    why: Words | None = None
    remark: Words | None = None
    metric: Text | None = None

    @model_validator(mode="after")
    def _why_calibrated(self) -> _Claim:
        if (self.role == "calibrated") != (self.why is not None):
            raise ValueError(
                "role: calibrated needs why (what was fitted to this number); predicted has none"
            )
        return self

    @property
    def is_calibrated(self) -> bool:
        """Whether something was fitted to this number, so that meeting it shows nothing."""
        return self.role == "calibrated"


class _Figure(_Claim):
    """A claim of a figure, with its published 95 % interval where one was given."""

    published: Number
    published_interval: tuple[Number, Number] | None = None

    @model_validator(mode="after")
    def _within(self) -> _Figure:
        if self.published_interval is not None:
            low, high = self.published_interval
            if not low <= self.published <= high:
                raise ValueError("published_interval is [low, high] and holds published")
        return self


class ValueClaim(_Figure):
    """A metric of one point. Close enough: within ``tolerance`` (relative), or ``absolute`` if given."""

    kind: Literal["value"]
    of: PointChoice
    tolerance: _Above = 0.1
    absolute: _Above | None = None

    @model_validator(mode="after")
    def _zero(self) -> ValueClaim:
        if self.published == 0.0 and self.absolute is None:
            raise ValueError("published: nothing is relative to 0; give absolute, the distance that is close")
        return self


class DifferenceClaim(_Figure):
    """``of`` − ``minus``; ``significant`` says whether it was published as such, where no interval does."""

    kind: Literal["difference"]
    of: PointChoice
    minus: PointChoice
    significant: bool | None = None

    @model_validator(mode="after")
    def _one_significance(self) -> DifferenceClaim:
        if self.published_interval is not None and self.significant is not None:
            raise ValueError("published_interval tells whether it is significant: leave significant out")
        return self

    @property
    def published_significant(self) -> bool | None:
        """Whether the published interval excludes zero, or it was said to; None where neither is known."""
        if self.published_interval is None:
            return self.significant
        low, high = self.published_interval
        return low > 0 or high < 0


class RatioClaim(_Figure):
    """``of`` ÷ ``over``; close enough within ``tolerance`` (relative)."""

    kind: Literal["ratio"]
    of: PointChoice
    over: PointChoice
    published: _Above
    tolerance: _Above = 0.1


class OrderClaim(_Claim):
    """``points`` in their published order, the best first.

    ``higher`` says whether the best is the highest; without it the metric's own sense decides.
    ``published`` may hold the published figures, and ``published_intervals`` their intervals, in the same
    order: neighbours whose published intervals overlap need not be clear here either.
    """

    kind: Literal["order"]
    points: Annotated[tuple[PointChoice, ...], Field(min_length=2, max_length=40)]
    higher: bool | None = None
    published: tuple[Number, ...] | None = None
    published_intervals: tuple[tuple[Number, Number], ...] | None = None

    @model_validator(mode="after")
    def _as_many(self) -> OrderClaim:
        for name in ("published", "published_intervals"):
            given = getattr(self, name)
            if given is not None and len(given) != len(self.points):
                raise ValueError(f"{name}: one for each of the {len(self.points)} points")
        for low, high in self.published_intervals or ():
            if low > high:
                raise ValueError("published_intervals are [low, high]")
        if self.published is not None and not _is_order(self.published):
            raise ValueError("published: the figures of points in their order only rise or only fall")
        return self


def _is_order(figures: tuple[float, ...]) -> bool:
    ascending = tuple(sorted(figures))
    return figures[0] != figures[-1] and figures in (ascending, ascending[::-1])


class SignClaim(_Claim):
    """``of`` lies above (``>``) or below (``<``) ``minus``; a claim of direction alone."""

    kind: Literal["sign"]
    of: PointChoice
    minus: PointChoice
    published: Literal["<", ">"]


class BoundClaim(_Claim):
    """A metric of ``of``, or ``of`` − ``minus``, or ``of`` ÷ ``over``, is at least or at most something."""

    kind: Literal["bound"]
    of: PointChoice
    minus: PointChoice | None = None
    over: PointChoice | None = None
    at_least: Number | None = None
    at_most: Number | None = None

    @model_validator(mode="after")
    def _bounded(self) -> BoundClaim:
        if self.minus is not None and self.over is not None:
            raise ValueError("give either minus or over")
        if self.at_least is None and self.at_most is None:
            raise ValueError("give at_least, at_most or both")
        if self.at_least is not None and self.at_most is not None and self.at_least > self.at_most:
            raise ValueError("at_least lies above at_most")
        return self


Claim = ValueClaim | DifferenceClaim | RatioClaim | OrderClaim | SignClaim | BoundClaim
KINDS: dict[str, Any] = {
    "value": ValueClaim,
    "difference": DifferenceClaim,
    "ratio": RatioClaim,
    "order": OrderClaim,
    "sign": SignClaim,
    "bound": BoundClaim,
}


def points_of(claim: Claim) -> tuple[PointChoice, ...]:
    """Every point that a claim speaks of."""
    if isinstance(claim, OrderClaim):
        return claim.points
    others = (getattr(claim, name, None) for name in ("minus", "over"))
    return (claim.of, *(each for each in others if each is not None))


class ClaimsFile(StrictModel):
    """Sweeps by short name, and the claims; ``note`` stands at the top of the page."""

    name: Name
    source: Words
    note: Words | None = None
    sweeps: Annotated[dict[Name, Path], Field(min_length=1)]
    claims: Annotated[tuple[Annotated[Claim, chosen_by("kind", KINDS)], ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _consistent(self) -> ClaimsFile:
        ids = [claim.id for claim in self.claims]
        if twice := sorted({each for each in ids if ids.count(each) > 1}):
            raise ValueError(f"claims: the id {', '.join(twice)} is given twice")
        for claim in self.claims:
            if claim.metric is None and not all(isinstance(each, FilePoint) for each in points_of(claim)):
                raise ValueError(f"claims: {claim.id}: metric is missing")
            for point in points_of(claim):
                sweep = _sweep_of(point)
                if sweep is not None and sweep not in self.sweeps:
                    known = ", ".join(self.sweeps)
                    raise ValueError(f"claims: {claim.id}: no sweep {sweep!r}; sweeps names: {known}")
        return self


def _sweep_of(point: PointChoice) -> str | None:
    if isinstance(point, FilePoint):
        return None
    return point.best.sweep if isinstance(point, BestPoint) else point.sweep


def load_claims(path: Path) -> Loaded[ClaimsFile]:
    """Read and validate a claims file; raises ``ConfigError`` with every fault."""
    return load(ClaimsFile, path)
