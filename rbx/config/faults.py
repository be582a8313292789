"""The fault script of mock servers: what goes wrong, where, when and how often."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, model_validator

from rbx.config.base import (
    Loaded,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    StrictModel,
    Text,
    UnitFloat,
    load,
)
from rbx.config.pool import Pool
from rbx.errors import ConfigError


class Fault(StrictModel):
    """When a fault acts: between ``start_s`` and ``end_s``, real seconds since the script was put in force.

    ``target`` is an instance, a tier or ``*`` for all.
    """

    target: Text = "*"
    start_s: NonNegativeFloat = 0.0
    end_s: PositiveFloat | None = None  # default: until the script is replaced

    @model_validator(mode="after")
    def _lasts(self) -> Fault:
        if self.end_s is not None and self.end_s <= self.start_s:
            raise ValueError(f"end_s = {self.end_s} must be after start_s = {self.start_s}")
        return self


class RequestFault(Fault):
    """A fault that hits a ``share`` of the requests by chance, and at most ``requests`` at each instance."""

    share: UnitFloat = 1.0
    requests: PositiveInt | None = None


class Crash(RequestFault):
    """The connection is reset after so many chunks of text; 0: before any byte."""

    kind: Literal["crash"]
    after_chunks: NonNegativeInt = 0


class Hang(RequestFault):
    """No byte after so many chunks, with the connection left open; 0: after the headers of a stream."""

    kind: Literal["hang"]
    after_chunks: NonNegativeInt = 0


class ErrorEvent(RequestFault):
    """An error object inside a stream with status 200, or a plain answer with status 500."""

    kind: Literal["error_event"]
    after_chunks: NonNegativeInt = 0


class BadJson(RequestFault):
    """One event of cut JSON after so many chunks; a plain answer is cut in the middle."""

    kind: Literal["bad_json"]
    after_chunks: NonNegativeInt = 0


class Status(RequestFault):
    """An HTTP error instead of an answer."""

    kind: Literal["status"]
    code: Annotated[int, Field(ge=400, le=599, strict=True)] = 500
    retry_after_s: NonNegativeInt | None = None


class NoDone(RequestFault):
    """A stream that ends without ``[DONE]``."""

    kind: Literal["no_done"]


class WrongUsage(RequestFault):
    """Usage left out, null, or with both counts times ``factor``, rounded down."""

    kind: Literal["usage"]
    mode: Literal["missing", "null", "wrong"] = "missing"
    factor: PositiveFloat = 2.0


class Refuse(Fault):
    """New connections are refused; answers under way go on, and a kept-alive connection gets no new one."""

    kind: Literal["refuse"]


class Down(Fault):
    """The server is gone: answers under way are reset and aborted, new connections refused."""

    kind: Literal["down"]


class Slow(Fault):
    """Every step takes ``factor`` times as long."""

    kind: Literal["slow"]
    factor: PositiveFloat


class Freeze(Fault):
    """The engine stands still: no token for anybody, while health and metrics answer."""

    kind: Literal["freeze"]


class TelemetryFault(Fault):
    """``/metrics`` shows one page for ever, nonsense, NaN or −1 for every number, keeps silent, or fails."""

    kind: Literal["telemetry"]
    mode: Literal["stale", "garbage", "nan", "negative", "hang", "status"]


AnyFault = Annotated[
    Crash
    | Hang
    | ErrorEvent
    | BadJson
    | Status
    | NoDone
    | WrongUsage
    | Refuse
    | Down
    | Slow
    | Freeze
    | TelemetryFault,
    Field(discriminator="kind"),
]


class FaultScript(StrictModel):
    """All faults; where several of a kind fit a request, the first in the file acts."""

    faults: tuple[AnyFault, ...] = ()

    def of(self, instance: str, tier: str) -> tuple[AnyFault, ...]:
        """Those that concern one instance."""
        return tuple(fault for fault in self.faults if fault.target in ("*", instance, tier))

    def check(self, pool: Pool) -> None:
        """Raise ``ConfigError`` for targets that ``pool`` does not have."""
        known = {"*"} | {tier.name for tier in pool.tiers} | {each.name for each in pool.instances}
        if unknown := sorted({fault.target for fault in self.faults} - known):
            raise ConfigError(
                f"faults: no instance or tier of pool {pool.name} is named {', '.join(unknown)}; "
                f"its tiers are {', '.join(tier.name for tier in pool.tiers)}"
            )


def load_faults(path: Path, overrides: list[str] | None = None) -> Loaded[FaultScript]:
    """Read and validate a fault script; raises ``ConfigError`` with every fault of the file."""
    return load(FaultScript, path, overrides)
