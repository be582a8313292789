"""The state of one instance at one moment, whole enough to replay it; arXiv 2607.18253, §BEA."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rbx.engine import snapshot_columns as snap
from rbx.engine.instance_profile import InstanceProfile
from rbx.engine.snapshot_checks import OK, RULES, request_fault
from rbx.engine.state import Floats, Ints
from rbx.engine.whole_number import check_whole
from rbx.errors import EngineError

MAX_IN_FLIGHT = 2


@dataclass(frozen=True)
class InstanceSnapshot:
    """One instance at ``stamp_s`` of a monotonic clock, in seconds; ``version`` counts its snapshots.

    ``requests`` (N, snap.N_REQUEST) has the running list in order in its first ``running`` rows, then the
    waiting list in order. ``steps`` (F, snap.N_STEP) has up to two batches in flight: the running one,
    then the one formed ahead; ``step_start_s`` (F,) is NaN for a batch that has not started.

    The arrays are copied and read-only. Raises ``EngineError`` with the field's name for counts that
    can't be, NaN and clocks that run backwards.
    """

    version: int
    stamp_s: float
    profile: InstanceProfile
    free_blocks: int
    running: int
    requests: Ints
    step_start_s: Floats
    steps: Ints

    def __post_init__(self) -> None:
        """Copy the arrays and refuse what can't be."""
        own = object.__setattr__
        own(self, "requests", whole(self.requests, "requests", snap.N_REQUEST))
        own(self, "steps", whole(self.steps, "steps", snap.N_STEP))
        own(self, "step_start_s", np.array(self.step_start_s, dtype=np.float64))
        own(self, "stamp_s", float(self.stamp_s))
        for array in (self.requests, self.steps, self.step_start_s):
            array.flags.writeable = False
        self._check_scalars()
        self._check_steps()
        check_requests(self)

    @property
    def stepping(self) -> bool:
        """Whether a step runs."""
        return len(self.step_start_s) > 0 and not math.isnan(self.step_start_s[0])

    @property
    def ahead(self) -> bool:
        """Whether a batch is formed that has not started."""
        return len(self.step_start_s) > int(self.stepping)

    def _check_scalars(self) -> None:
        limits = self.profile.limits
        check_whole(self, version=0, free_blocks=0, running=0)
        if not (math.isfinite(self.stamp_s) and self.stamp_s >= 0.0):
            raise EngineError(f"stamp_s is {self.stamp_s}; it must be finite and not negative")
        if not 0 <= self.free_blocks <= limits.kv_blocks:
            raise EngineError(
                f"free_blocks is {self.free_blocks}; there are {limits.kv_blocks} blocks in all"
            )
        if not 0 <= self.running <= min(len(self.requests), limits.max_num_seqs):
            raise EngineError(
                f"running is {self.running}, of {len(self.requests)} requests and max_num_seqs = "
                f"{limits.max_num_seqs}"
            )

    def _check_steps(self) -> None:
        limits, starts = self.profile.limits, self.step_start_s
        if starts.shape != (len(self.steps),) or len(starts) > MAX_IN_FLIGHT:
            raise EngineError(
                f"step_start_s has shape {starts.shape} and steps {self.steps.shape}; give one start "
                f"for each of at most {MAX_IN_FLIGHT} batches in flight"
            )
        if self.ahead and not limits.async_scheduling:
            raise EngineError("steps holds a batch that has not started; only async_scheduling forms ahead")
        for k, start_s in enumerate(starts.tolist()):
            waits = k == len(starts) - 1 and self.ahead
            if not (math.isnan(start_s) if waits else start_s <= self.stamp_s and math.isfinite(start_s)):
                raise EngineError(
                    f"step_start_s[{k}] is {start_s} and stamp_s is {self.stamp_s}; a running step started "
                    "in the past, and only the last batch may not have started (NaN)"
                )
        for k, make_up in enumerate(self.steps.tolist()):
            prefill, squared = make_up[snap.PREFILL_TOKENS], make_up[snap.PREFILL_SQUARED]
            tokens = make_up[snap.DECODES] + prefill
            decodes, context = make_up[snap.DECODES], make_up[snap.CONTEXT]
            counted = min(make_up) >= 0 and 0 < tokens <= limits.max_num_batched_tokens
            seated = decodes <= limits.max_num_seqs and context <= decodes * limits.max_model_len
            if not (counted and seated and prefill <= squared <= prefill**2):
                shown = ", ".join(f"{n} {v}" for n, v in zip(snap.STEP_FIELDS, make_up, strict=True))
                raise EngineError(
                    f"steps[{k}] has {shown}; none may be negative, a batch has 1 to "
                    f"{limits.max_num_batched_tokens} tokens and at most {limits.max_num_seqs} decodes of at "
                    f"most {limits.max_model_len} tokens of context each, and prefill_squared lies between "
                    "prefill_tokens and their square"
                )


def check_requests(snapshot: InstanceSnapshot) -> None:
    """Raise ``EngineError`` for the first request that can't be."""
    limits = snapshot.profile.limits_row
    stepping, ahead = snapshot.stepping, snapshot.ahead
    rule, row = request_fault(snapshot.requests, snapshot.running, stepping, ahead, limits)
    if rule == OK:
        return
    column, words = RULES[rule]
    values = zip(snap.REQUEST_FIELDS, snapshot.requests[row].tolist(), strict=True)
    place = "running" if row < snapshot.running else "waiting"
    raise EngineError(
        f"requests[{row}] ({place}): {snap.REQUEST_FIELDS[column]} {words}; the row is "
        + ", ".join(f"{name} {value}" for name, value in values)
    )


def whole(values: NDArray[np.int64], name: str, columns: int) -> Ints:
    """A copy of a table of whole numbers, shape (any, ``columns``)."""
    array = np.asarray(values)
    if array.ndim != 2 or array.shape[1] != columns:
        raise EngineError(f"{name} has shape {array.shape}; it needs {columns} columns")
    if array.size and array.dtype.kind not in "iub":
        raise EngineError(f"{name} must be whole numbers, not {array.dtype}")
    return np.array(array, dtype=np.int64, order="C")
