"""The steps of one server, found again in the stamps that its tokens have at the client.

A running request gets one token from every step until it ends, so its tokens are those of consecutive
steps. Requests are laid over each other where their stamps agree best; a step's end is the mean stamp of
its tokens. Thus steps shorter than the stamps' jitter can be told apart, by counting. A request with a
gap (it was preempted), or whose chunks do not add up to its tokens, is placed by its first and last stamp.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

# How far stamps of the same step may lie apart: bounds the search, not the result.
_JITTER_S = 0.010
_MOST_CANDIDATES = 48
_COMPARED_TOKENS = 256
# A gap of more steps than this in an answer was no jitter.
_GAP_STEPS = 2.5


@dataclass(frozen=True)
class Stamps:
    """Tokens of one answer at the client: ``first_s`` to ``last_s``; each one's in ``tokens_s`` if known."""

    tokens: int
    first_s: float
    last_s: float
    tokens_s: Floats | None


@dataclass(frozen=True)
class Chain:
    """S steps of one server in order: ``end_s`` (S,) on the client's clock.

    ``first`` and ``last`` (N,) are the steps that gave each of the answers its first and last token, in the
    order given; ``aligned`` (N,) says that the answer took part in all between.
    """

    end_s: Floats
    first: Ints
    last: Ints
    aligned: NDArray[np.bool_]


def chain_of(answers: Sequence[Stamps]) -> Chain:
    """Lay answers of one server over each other; they may be in any order."""
    steps = _Steps(sum(answer.tokens for answer in answers) + 1)
    first, last = np.zeros(len(answers), dtype=np.int64), np.zeros(len(answers), dtype=np.int64)
    aligned = np.zeros(len(answers), dtype=np.bool_)
    order = sorted(range(len(answers)), key=lambda k: (answers[k].first_s, answers[k].last_s))
    for k in order:
        tokens_s = answers[k].tokens_s
        at = None if tokens_s is None else steps.lay(tokens_s)
        if at is not None:
            first[k], last[k], aligned[k] = at, at + answers[k].tokens - 1, True
        else:
            first[k] = steps.reach(answers[k].first_s)
            last[k] = max(first[k], steps.reach(answers[k].last_s))
    return Chain(steps.end_s(), first, last, aligned)


class _Steps:
    """Sums and counts of stamps by step, as far as the chain goes."""

    def __init__(self, capacity: int) -> None:
        self._sum = np.zeros(capacity)
        self._count = np.zeros(capacity)
        self._mean = np.zeros(capacity)
        self._size = 0

    def end_s(self) -> Floats:
        return self._mean[: self._size].copy()

    def lay(self, tokens_s: Floats) -> int | None:
        """Take in an answer and return the step of its first token; None where it has a gap."""
        at = self._best(tokens_s)
        shared = min(len(tokens_s), self._size - at)
        if shared > 0 and self._has_gap(tokens_s[:shared] - self._mean[at : at + shared]):
            return None
        self._add(at, tokens_s)
        return at

    def reach(self, stamp_s: float) -> int:
        """The step nearest to a stamp; a new one where the chain has ended before."""
        near = self._nearest(stamp_s)
        if near == self._size:
            self._add(near, np.array([stamp_s]))
        return near

    def _add(self, at: int, tokens_s: Floats) -> None:
        end = at + len(tokens_s)
        self._sum[at:end] += tokens_s
        self._count[at:end] += 1
        self._mean[at:end] = self._sum[at:end] / self._count[at:end]
        self._size = max(self._size, end)

    def _step_s(self) -> float:
        """Length of the last steps; a pause among them does not count."""
        recent = np.diff(self._mean[max(0, self._size - 17) : self._size])
        return max(float(np.median(recent)), 1e-6) if len(recent) else 1e-6

    def _nearest(self, stamp_s: float) -> int:
        size, known = self._size, self._mean[: self._size]
        if size == 0:
            return 0
        above = int(np.searchsorted(known, stamp_s))
        if above == size:
            return size if stamp_s - known[-1] > 0.5 * self._step_s() else size - 1
        return above - 1 if above and stamp_s - known[above - 1] < known[above] - stamp_s else above

    def _best(self, tokens_s: Floats) -> int:
        near, step_s = self._nearest(float(tokens_s[0])), self._step_s()
        if near == self._size and tokens_s[0] - self._mean[max(near - 1, 0)] > _JITTER_S + step_s:
            return near  # after a pause: nothing to lay it over
        reach = min(_MOST_CANDIDATES, 2 + int(_JITTER_S / step_s))
        candidates = range(max(0, near - reach), min(self._size, near + reach) + 1)
        return min(candidates, key=lambda at: (self._distance(at, tokens_s, step_s), abs(at - near)))

    def _distance(self, at: int, tokens_s: Floats, step_s: float) -> float:
        shared = min(len(tokens_s), self._size - at)
        if shared <= 0:
            beyond = self._mean[self._size - 1] + step_s if self._size else tokens_s[0]
            return float(abs(beyond - tokens_s[0]))
        shared = min(shared, _COMPARED_TOKENS)
        return float(np.median(np.abs(self._mean[at : at + shared] - tokens_s[:shared])))

    def _has_gap(self, late_s: Floats) -> bool:
        """Whether the end of an answer is late against its begin, by more than it varies within either."""
        quarter = len(late_s) // 4
        if quarter < 1:
            return False
        begin_s, end_s = late_s[:quarter], late_s[-quarter:]
        shift_s = abs(float(np.median(end_s) - np.median(begin_s)))
        varies_s = max(float(np.ptp(begin_s)), float(np.ptp(end_s)))
        return shift_s > max(_GAP_STEPS * self._step_s(), _JITTER_S / 2, 2.0 * varies_s)
