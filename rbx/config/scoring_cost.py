"""What it costs to have a router score prompts, in virtual time."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from rbx.config.base import PositiveInt, StrictModel

# Beyond an hour a cell's times are lost to overflow, which would show only once it has run.
_UpToAnHour = Annotated[float, Field(ge=0, le=3600, strict=True)]


class ScoringCost(StrictModel):
    """Seconds of one scoring call: encoder and head, ``fixed_s + per_request_s·B + per_token_s·T``.

    T are the tokens of the B prompts, each counted up to ``max_tokens``; ``padded`` takes every prompt for as
    long as the longest of its call. A call takes ``worker_slowdown`` times as long on one of several workers,
    which share the machine. ``rbx bench scoring-cost`` measures them all.
    """

    fixed_s: _UpToAnHour = 0.0
    per_request_s: _UpToAnHour = 0.0
    per_token_s: _UpToAnHour = 0.0
    max_tokens: PositiveInt = 512
    padded: bool = False
    worker_slowdown: Annotated[float, Field(ge=1, le=1000, strict=True)] = 1.0
