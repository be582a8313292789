"""What of ours stands beside a published figure: a point named, the best of several, a number of a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, Field, TypeAdapter, model_validator

from rbx.config.base import Name, NonNegativeInt, PositiveFloat, StrictModel, Text


class _Placed(StrictModel):
    """A sweep's short name and an arrival rate; ``seeds`` keeps some seeds of the cells alone."""

    sweep: Name
    rate_per_s: PositiveFloat | None = None
    load: PositiveFloat | None = None
    seeds: Annotated[tuple[NonNegativeInt, ...], Field(min_length=1)] | None = None

    @model_validator(mode="after")
    def _one_rate(self) -> _Placed:
        if self.rate_per_s is not None and self.load is not None:
            raise ValueError("give either rate_per_s or load")
        return self


class NamedPoint(_Placed):
    """The policy of this label; without a rate, at the one rate that the sweep has."""

    policy: Text


class BestChoice(_Placed):
    """Of the policies whose label is or matches one of ``policies``, the best by a metric.

    Without a rate, over all rates of the sweep. ``by`` is the claim's own metric unless given; ``want``
    is the metric's own sense unless given.
    """

    policies: Annotated[tuple[Text, ...], Field(min_length=1)]
    by: Text | None = None
    want: Literal["highest", "lowest"] | None = None

    @model_validator(mode="before")
    @classmethod
    def _one_or_many(cls, data: Any) -> Any:
        if isinstance(data, dict) and isinstance(data.get("policies"), str):
            return {**data, "policies": (data["policies"],)}
        return data


class BestPoint(StrictModel):
    """The best of several points, picked on the data it is judged by."""

    best: BestChoice


class FilePoint(StrictModel):
    """A number of a JSON file, by its dotted key (lists are indexed); it has no interval of ours."""

    file: Path
    key: Text


def _choose(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value
    if not isinstance(value, dict):
        raise ValueError("must be a mapping: {sweep, policy, rate_per_s}, {best: {...}} or {file, key}")
    model = BestPoint if "best" in value else FilePoint if "file" in value else NamedPoint
    return TypeAdapter(model).validate_python(value)


PointChoice = Annotated[NamedPoint | BestPoint | FilePoint, BeforeValidator(_choose)]
