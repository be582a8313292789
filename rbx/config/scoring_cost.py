"""What it costs to have a router score prompts, in virtual time."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from rbx.config.base import NonNegativeFloat, PositiveInt, StrictModel


class ScoringCost(StrictModel):
    """Seconds of one scoring call: encoder and head, ``fixed_s + per_request_s·B + per_token_s·T``.

    T are the tokens of the B prompts, each counted up to ``max_tokens``; ``padded`` takes every prompt for as
    long as the longest of its call. A call takes ``worker_slowdown`` times as long on one of several workers,
    which share the machine. ``rbx bench scoring-cost`` measures them all.
    """

    fixed_s: NonNegativeFloat = 0.0
    per_request_s: NonNegativeFloat = 0.0
    per_token_s: NonNegativeFloat = 0.0
    max_tokens: PositiveInt = 512
    padded: bool = False
    worker_slowdown: Annotated[float, Field(ge=1, le=1000, strict=True)] = 1.0
