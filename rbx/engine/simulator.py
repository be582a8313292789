"""A pool of vLLM V1 instances in virtual time.

Which requests share a step follows vLLM 0.32's scheduler rule by rule (``batch_formation``) and its
engine loop (``batch_replay``); how long a step takes is the tier's step-time model (``step_time``).
Prefix caching and speculative decoding are off. Left out on purpose: the time of the scheduler itself,
and the millisecond that vLLM sleeps after forming an empty batch while requests are left.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rbx.config.pool import Tier
from rbx.engine import instance_columns as inst
from rbx.engine import request_columns as req
from rbx.engine import submission as sub
from rbx.engine.abort import take_out
from rbx.engine.batch_replay import advance_all, drain_all
from rbx.engine.progress import next_boundary_s, output_tokens
from rbx.engine.renewal import without_finished
from rbx.engine.snapshot import snapshot
from rbx.engine.state import EngineState, Floats, Ints
from rbx.engine.telemetry import PoolTelemetry
from rbx.errors import EngineError


class EngineSim:
    """Instances that serve submitted requests; results are arrays by slot, in order of submission.

    Results by slot are read-only views that follow the clock.
    Where the clock is stopped on the way never changes a result. At time t, steps that end at t have
    ended, while the batches due at t are formed as soon as time moves on, with every arrival at t.
    """

    def __init__(self, tiers_of_instances: Sequence[Tier], capacity: int) -> None:
        """One instance per tier given; ``capacity`` bounds the requests submitted before ``renew``."""
        if not tiers_of_instances:
            raise EngineError("an engine needs at least one instance; the list of tiers is empty")
        if capacity < 0:
            raise EngineError(f"the capacity is {capacity} requests; it can't be negative")
        self._state = EngineState.idle(tiers_of_instances, capacity)
        self._total = 0
        self._clock_s = 0.0

    @property
    def clock_s(self) -> float:
        """Present virtual time."""
        return self._clock_s

    def submit(
        self,
        instance: int,
        at_s: float,
        prompt_tokens: int,
        output_tokens: int,
        predicted_tokens: int,
        stops_by_length: bool = False,
    ) -> int:
        """Submit one request that reaches ``instance`` at ``at_s``; see ``submit_many``."""
        row = ([instance], [at_s], [prompt_tokens], [output_tokens], [predicted_tokens], [stops_by_length])
        return int(self.submit_many(*row)[0])

    def submit_many(
        self,
        instance: ArrayLike,
        at_s: ArrayLike,
        prompt_tokens: ArrayLike,
        output_tokens: ArrayLike,
        predicted_tokens: ArrayLike,
        stops_by_length: ArrayLike | None = None,
        cap_tokens: ArrayLike | None = None,
    ) -> Ints:
        """Submit N requests, all or none; every argument has shape (N,). Returns their slots (N,).

        ``at_s`` may lie in the future, in any order; requests that reach an instance at the same time
        keep the order of submission. ``output_tokens`` is the true length, which only the end of the
        request reveals; ``predicted_tokens`` feeds telemetry. ``stops_by_length`` marks answers that
        their cap ends: under asynchronous scheduling only those spare the extra step after the end.
        ``cap_tokens`` is the cap that each was sent with, which snapshots show; without it the cap of an
        answer that stops by itself is what the context leaves.

        Raises ``EngineError`` for an unknown instance, a time before the clock, token counts below 1,
        prompt plus output beyond max_model_len, a cap that the output does not keep, or more requests than
        the capacity.
        """
        times = np.asarray(at_s, dtype=np.float64)
        if times.ndim != 1:
            raise EngineError(f"at_s must be one column of times, not of shape {times.shape}")
        by_length = np.zeros(len(times), dtype=bool) if stops_by_length is None else stops_by_length
        caps = np.full(len(times), sub.NO_CAP) if cap_tokens is None else cap_tokens
        requests = np.empty((7, len(times)), dtype=np.int64)
        requests[sub.INSTANCE] = _whole(instance, "instance", len(times))
        requests[sub.PROMPT] = _whole(prompt_tokens, "prompt_tokens", len(times))
        requests[sub.OUTPUT] = _whole(output_tokens, "output_tokens", len(times))
        requests[sub.PREDICTED] = _whole(predicted_tokens, "predicted_tokens", len(times))
        requests[sub.BY_LENGTH] = _whole(by_length, "stops_by_length", len(times))
        requests[sub.CAP] = _whole(caps, "cap_tokens", len(times))
        first = self._total
        if first + len(times) > len(self._state.slots):
            raise EngineError(
                f"{first} requests are in and {len(times)} more would pass the capacity of "
                f"{len(self._state.slots)}; build the engine with a larger capacity"
            )
        fault, position = sub.fault_of(self._state, self._clock_s, requests, times)
        if fault != sub.ACCEPTED:
            raise EngineError(self._explain(fault, position, requests[:, position], float(times[position])))
        sub.enter(self._state, first, requests, times, np.argsort(times, kind="stable"))
        self._total += len(times)
        return np.arange(first, self._total)

    def advance(self, until_s: float) -> None:
        """Bring every instance to ``until_s``; steps that end later stay in flight."""
        if not self._clock_s <= until_s < np.inf:
            raise EngineError(
                f"can't advance to {until_s} s: the clock shows {self._clock_s} s, and time only moves "
                "on, to a finite value"
            )
        advance_all(self._state, until_s)
        self._clock_s = float(until_s)

    def drain(self) -> None:
        """Run until every submitted request is finished; the clock then shows when the last one was."""
        self._clock_s = drain_all(self._state, self._clock_s)

    def abort(self, slot: int) -> bool:
        """Take a request out now, as when its client leaves; False if it has ended already.

        It gets no further token, its blocks and its seat are free for the next batch that is formed, and
        its ``done_s`` stays NaN. Batches formed before run as they are. Raises ``EngineError`` for a slot
        that was never given.
        """
        self._refuse_unknown(slot, slot)
        return bool(take_out(self._state, slot, self._clock_s))

    def renew(self, capacity: int) -> Ints:
        """Forget finished requests and make room for ``capacity`` in all; returns the slots kept, (N,).

        Request ``kept[n]`` is slot n from now on, in results and calls. What is to come does not change.
        Raises ``EngineError`` if more than ``capacity`` are unfinished.
        """
        unfinished = int((self._state.slots[: self._total, req.STATUS] != req.FINISHED).sum())
        if unfinished > capacity:
            raise EngineError(
                f"{unfinished} requests are unfinished; a capacity of {capacity} can't hold them"
            )
        self._state, kept = without_finished(self._state, self._total, capacity)
        self._total = unfinished
        return kept

    def output_tokens(self, slots: ArrayLike) -> Ints:
        """Tokens that each request of ``slots`` (N,) has got from the steps ended by now, (N,).

        An aborted one shows those that it had before its last admission. Raises ``EngineError`` for a slot
        that was never given.
        """
        asked = np.asarray(slots, dtype=np.int64)
        if len(asked):
            self._refuse_unknown(int(asked.min()), int(asked.max()))
        return output_tokens(self._state, asked)

    @property
    def next_boundary_s(self) -> float:
        """The next end of a step, batch due or arrival, before which no request gets a token; inf if idle.

        It is the present where a batch is formed as soon as time moves on.
        """
        return float(next_boundary_s(self._state))

    def telemetry(self) -> PoolTelemetry:
        """Every instance now, as its scheduler counts: a token is computed once its batch is formed.

        ``decode_context_tokens`` sums them over running requests past their prefill. Requests that have
        arrived and are not running are waiting, whether or not the scheduler has looked at them yet.
        """
        stamp_s = np.full(len(self._state.counts), self._clock_s)
        return PoolTelemetry(stamp_s, *snapshot(self._state, self._clock_s))

    @property
    def state(self) -> EngineState:
        """The arrays themselves, for exact snapshots; whoever writes into them breaks the simulation."""
        return self._state

    @property
    def first_scheduled_s(self) -> Floats:
        """When the first batch with the request was formed, (submitted,); NaN until then."""
        return self._results(self._state.slot_times, req.SCHEDULED_S)

    @property
    def first_token_s(self) -> Floats:
        """End of the step that completed the prefill, (submitted,); NaN until then."""
        return self._results(self._state.slot_times, req.FIRST_TOKEN_S)

    @property
    def done_s(self) -> Floats:
        """End of the step that gave the last token, (submitted,); NaN until then."""
        return self._results(self._state.slot_times, req.DONE_S)

    @property
    def preemptions(self) -> Ints:
        """How often each request lost its blocks and was computed anew, (submitted,)."""
        return self._results(self._state.slots, req.PREEMPTIONS)

    @property
    def steps(self) -> Ints:
        """Steps that have ended, (instances,)."""
        counts = self._state.counts
        return counts[:, inst.STARTED] - counts[:, inst.STEPPING]

    @property
    def busy_s(self) -> Floats:
        """Seconds with a step running, up to now, (instances,)."""
        times = self._state.times
        since_s = np.minimum(times[:, inst.BUSY_SINCE_S], self._clock_s)
        return times[:, inst.BUSY_S] + (self._clock_s - since_s)

    def _refuse_unknown(self, least: int, most: int) -> None:
        if least < 0 or most >= self._total:
            slot = least if least < 0 else most
            raise EngineError(f"slot {slot} was never given; requests have 0 to {self._total - 1}")

    def _results(self, table: NDArray[Any], column: int) -> NDArray[Any]:
        view = table[: self._total, column]
        view.flags.writeable = False
        return view

    def _explain(self, fault: int, position: int, request: NDArray[np.int64], at_s: float) -> str:
        i, prompt, output = int(request[sub.INSTANCE]), int(request[sub.PROMPT]), int(request[sub.OUTPUT])
        where = f"request {position} of this submission"
        if fault == sub.BAD_INSTANCE:
            return f"{where}: instance {i} does not exist; there are {len(self._state.counts)}, from 0 on"
        if fault == sub.BAD_TIME:
            return (
                f"{where}: it arrives at {at_s} s and the clock shows {self._clock_s} s; give a finite "
                "time that is not in the past"
            )
        if fault == sub.BAD_TOKENS:
            return (
                f"{where}: prompt {prompt}, output {output} and predicted output "
                f"{int(request[sub.PREDICTED])} tokens must all be at least 1"
            )
        if fault == sub.BAD_CAP:
            return (
                f"{where}: cap_tokens {int(request[sub.CAP])} and output {output} tokens; an answer keeps to "
                "its cap, and one that its cap ends is as long"
            )
        limit = int(self._state.counts[i, inst.MAX_MODEL_LEN])
        return (
            f"{where}: prompt {prompt} + output {output} tokens pass max_model_len = {limit} of instance "
            f"{i}; send a shorter prompt or cap the output at {limit - prompt}"
        )


def _whole(values: ArrayLike, name: str, n: int) -> NDArray[np.generic]:
    array = np.asarray(values)
    if array.shape != (n,):
        raise EngineError(f"{name} has shape {array.shape} and at_s has {n} entries; give one for each")
    if n and array.dtype.kind not in "iub":
        raise EngineError(f"{name} must be whole numbers, not {array.dtype}")
    return array
