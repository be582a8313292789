"""How a router's scoring is deployed: with the batch, or before it in one of four ways (docs/ladder.md).

In a file it stands as dispatchers do: a name takes the defaults, a mapping with ``kind`` sets the constants,
and ``{kind: concurrent, workers: [4, 8]}`` stands for two deployments.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, NamedTuple, get_args

from pydantic import BeforeValidator, Field

from rbx.config.base import StrictModel
from rbx.config.multiplied import multiplied
from rbx.config.named_entry import named

_Seconds = Annotated[float, Field(ge=0, le=60, strict=True)]
_Prompts = Annotated[int, Field(ge=1, le=4096, strict=True)]
_Workers = Annotated[int, Field(ge=1, le=256, strict=True)]


class ScoringQueue(NamedTuple):
    """A queue of prompts in front of ``workers``, each of which scores up to ``max_size`` prompts a call.

    A free worker waits for ``max_size`` prompts, or until the first has waited ``window_s``. ``rpc_s`` is
    how long a prompt travels, there and back together.
    """

    workers: int
    max_size: int
    window_s: float
    rpc_s: float


class _Rung(StrictModel):
    short: ClassVar[dict[str, str]] = {}
    kind: str

    @property
    def queue(self) -> ScoringQueue | None:
        """Where prompts are scored before they wait for a batch; None if they are scored with it."""
        return None

    @property
    def label(self) -> str:
        """Its kind, and the constants that depart from the defaults."""
        words = [self.kind]
        for name, letters in self.short.items():
            value = getattr(self, name)
            if value != type(self).model_fields[name].default:
                words.append(f"{letters}{value:g}")
        return " ".join(words)


class InBatch(_Rung):
    """The closed batch is scored in the decision loop, which waits for it."""

    kind: Literal["in-batch"] = "in-batch"


class Serial(_Rung):
    """One scoring call at a time, of one prompt."""

    kind: Literal["serial"] = "serial"

    @property
    def queue(self) -> ScoringQueue:
        """One worker, one prompt."""
        return ScoringQueue(workers=1, max_size=1, window_s=0.0, rpc_s=0.0)


class Microbatch(_Rung):
    """One scoring call at a time, of the prompts that have gathered, on the scheduler's machine."""

    short: ClassVar[dict[str, str]] = {"max_size": "n", "window_s": "w"}
    kind: Literal["microbatch"] = "microbatch"
    max_size: _Prompts = 64
    window_s: _Seconds = 0.01

    @property
    def queue(self) -> ScoringQueue:
        """One worker, many prompts."""
        return ScoringQueue(workers=1, max_size=self.max_size, window_s=self.window_s, rpc_s=0.0)


class Sidecar(_Rung):
    """A service of its own that gathers prompts as ``microbatch`` does; ``rpc_s`` is simulated alone."""

    short: ClassVar[dict[str, str]] = {"max_size": "n", "window_s": "w", "rpc_s": "rpc"}
    kind: Literal["sidecar"] = "sidecar"
    max_size: _Prompts = 64
    window_s: _Seconds = 0.01
    rpc_s: _Seconds = 0.001

    @property
    def queue(self) -> ScoringQueue:
        """One worker, many prompts, a way to go."""
        return ScoringQueue(workers=1, max_size=self.max_size, window_s=self.window_s, rpc_s=self.rpc_s)


class Concurrent(_Rung):
    """``workers`` calls at a time beside the decision loop, each of one prompt."""

    short: ClassVar[dict[str, str]] = {"workers": "×"}
    kind: Literal["concurrent"] = "concurrent"
    workers: _Workers = 8

    @property
    def queue(self) -> ScoringQueue:
        """Many workers, one prompt each."""
        return ScoringQueue(workers=self.workers, max_size=1, window_s=0.0, rpc_s=0.0)


_Any = InBatch | Serial | Microbatch | Sidecar | Concurrent
_NAMES = tuple(rung.model_fields["kind"].default for rung in get_args(_Any))

Deployment = Annotated[
    Annotated[_Any, Field(discriminator="kind")], BeforeValidator(named("deployment", _NAMES))
]
DeploymentList = Annotated[tuple[Deployment, ...], BeforeValidator(multiplied), Field(min_length=1)]
