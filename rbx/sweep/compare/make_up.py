"""What the steps of a chain held: decodes, their context and chunks of prompts, by the engine's rules.

The rules are those of ``docs/engine.md``: a decoding request takes one token a step, prompts take what the
budget leaves in the order in which they came, and an answer that stops by itself has a
share in one more batch under asynchronous scheduling.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rbx.config.pool import EngineLimits
from rbx.sweep.compare.chain import Chain

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class MakeUp:
    """Columns by step, each (S,).

    ``linked`` says that some aligned answer got tokens from this step and from the one before: only then the
    time between the two is this step's length. ``doubtful`` marks steps with a part of a prompt that can't be
    told, since some step before it gave no token to anybody.
    """

    decodes: Floats
    context: Floats
    prefill_tokens: Floats
    squared: Floats
    cross: Floats
    linked: Bools
    doubtful: Bools


def make_up(chain: Chain, arrived_s: Floats, prompts: Ints, by_length: Bools, limits: EngineLimits) -> MakeUp:
    """Lay out the steps of ``chain``, whose N answers have arrivals, prompts and kinds of end (N,)."""
    steps = len(chain.end_s)
    given = _Ranges(steps)
    given.add(chain.first + 1, chain.last + 1, prompts - chain.first - 1)
    decodes, context = given.columns()
    sure = _Ranges(steps)
    sure.add((chain.first + 1)[chain.aligned], (chain.last + 1)[chain.aligned], prompts[chain.aligned])
    linked = sure.columns()[0] > 0
    if limits.async_scheduling:
        # The share of an answer that has stopped by itself; nobody gets a token of it.
        late = chain.last[~by_length] + 1
        ghosts = _Ranges(steps)
        ghosts.add(late, np.minimum(late + 1, steps), (prompts - chain.first - 1)[~by_length])
        more, their_context = ghosts.columns()
        decodes, context = decodes + np.where(linked, more, 0), context + np.where(linked, their_context, 0)
    prefill = _Prefill(decodes, linked, formed_s(chain.end_s, ahead=limits.async_scheduling), limits)
    for row in np.lexsort((arrived_s, chain.first)):
        prefill.give(int(chain.first[row]), int(prompts[row]), float(arrived_s[row]))
    return MakeUp(decodes, context, prefill.tokens, prefill.squared, prefill.cross, linked, prefill.doubtful)


def formed_s(end_s: Floats, *, ahead: bool) -> Floats:
    """When the batch of each step (S,) was formed: at the end of the one before, or one step earlier."""
    back = 2 if ahead else 1
    return np.concatenate([np.full(back, -np.inf), end_s])[: len(end_s)]


class _Ranges:
    """Sums over requests that decode from one step to another, with a context that grows by one a step."""

    def __init__(self, steps: int) -> None:
        self._count, self._offset = np.zeros(steps + 1), np.zeros(steps + 1)

    def add(self, begin: Ints, end: Ints, offset: Ints) -> None:
        """Steps begin ≤ s < end, in each of which the context is offset + s."""
        last = len(self._count) - 1
        for at, sign in ((begin, 1.0), (np.maximum(end, begin), -1.0)):
            where = np.minimum(at, last)
            np.add.at(self._count, where, sign)
            np.add.at(self._offset, where, sign * offset)

    def columns(self) -> tuple[Floats, Floats]:
        """How many decode in each step, and their contexts' sum."""
        count = np.cumsum(self._count)[:-1]
        return count, np.cumsum(self._offset)[:-1] + count * np.arange(len(count))


class _Prefill:
    """The token budget of each step, and the chunks that were taken of it."""

    def __init__(self, decodes: Floats, linked: Bools, formed: Floats, limits: EngineLimits) -> None:
        self._left = np.maximum(limits.max_num_batched_tokens - decodes, 1.0)
        self._linked, self._formed_s, self._chunked = linked, formed, limits.chunked_prefill
        self.tokens, self.squared, self.cross = (np.zeros(len(decodes)) for _ in range(3))
        self.doubtful = np.zeros(len(decodes), dtype=np.bool_)

    def give(self, last: int, prompt: int, arrived_s: float) -> None:
        """A prompt whose last chunk was in step ``last``: earlier ones filled what was left of theirs.

        It began as early as it could: after it came, where something was left, and so that it did not end
        before its last step.
        """
        first, before, room = last, 0.0, float(self._left[last])
        while self._chunked and first > 0 and self._linked[first]:
            left = float(self._left[first - 1])
            if room >= prompt and (
                left == 0.0 or before + left >= prompt or self._formed_s[first - 1] < arrived_s
            ):
                break
            first, before, room = first - 1, before + left, room + left
        if room < prompt:
            # What is left over was computed in steps that nobody saw, or the prompt overlapped another.
            self.doubtful[last] = self.doubtful[min(last + 1, len(self.doubtful) - 1)] = True
        computed = max(prompt - room, 0.0)
        for step in range(first, last + 1):
            chunk = min(prompt - computed, self._left[step])
            self._left[step] -= chunk
            self.tokens[step] += chunk
            self.squared[step] += chunk * chunk
            self.cross[step] += chunk * computed
            computed += chunk
