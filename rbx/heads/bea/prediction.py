"""What is asked of a replay, how far it may go, and what it answers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import IntFlag

from rbx.engine.whole_number import check_whole
from rbx.errors import EngineError


class TtftFlag(IntFlag):
    """What a reader of a prediction should know; ``TIME_CAP`` and ``STEP_CAP`` make it a lower bound."""

    TIME_CAP = 1  # the first token comes after the horizon
    STEP_CAP = 2  # it comes after more steps than were allowed
    PREEMPTION = 4  # a request loses its blocks before it
    AGED = 8  # steps ended between the snapshot and now; what they did is a replay too
    OVERDUE = 16  # the running step should have ended before the snapshot was taken
    LENGTH_UNKNOWN = 32  # a request had neither survivors nor a prediction; half its cap stood in
    BLOCKS_DISAGREE = 64  # blocks held do not add up to those in use (a shared prefix, for instance)


LOWER_BOUND = TtftFlag.TIME_CAP | TtftFlag.STEP_CAP


@dataclass(frozen=True)
class Probe:
    """The request whose first token is asked for; ``cached_prefix_tokens`` of its prompt are a cache hit."""

    prompt_tokens: int
    cached_prefix_tokens: int = 0

    def __post_init__(self) -> None:
        """Refuse values out of range."""
        check_whole(self, prompt_tokens=1, cached_prefix_tokens=0)
        if self.cached_prefix_tokens >= self.prompt_tokens:
            raise EngineError(
                f"the probe's cached_prefix_tokens is {self.cached_prefix_tokens} of {self.prompt_tokens}; "
                "at least one prompt token must be computed"
            )


@dataclass(frozen=True)
class ReplayCaps:
    """A replay gives up ``horizon_s`` from now, or after ``max_steps`` steps."""

    horizon_s: float = 60.0
    max_steps: int = 1_000_000

    def __post_init__(self) -> None:
        """Refuse values out of range."""
        if not (math.isfinite(self.horizon_s) and self.horizon_s > 0.0):
            raise EngineError(f"horizon_s is {self.horizon_s}; it must be finite and above 0")
        check_whole(self, max_steps=1)


@dataclass(frozen=True)
class TtftPrediction:
    """``seconds`` from now to the end of the step with the first token; ``steps`` that end till then."""

    seconds: float
    steps: int
    flags: TtftFlag

    @property
    def is_lower_bound(self) -> bool:
        """Whether a cap ended the replay: the first token comes later than ``seconds``."""
        return bool(self.flags & LOWER_BOUND)
