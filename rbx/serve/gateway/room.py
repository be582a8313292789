"""How many requests may be in the gateway at once where the configuration gives no number."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rbx.config.pool import Pool

if TYPE_CHECKING:
    from rbx.serve.gateway.version import Version

# Requests in flight for each seat. At saturation those without a seat wait half as long as an answer takes
# (Little's law), and no seat stands empty for want of a request.
PER_SEAT = 1.5


def seats_of(pool: Pool, prompt_tokens: float, length_tokens: NDArray[np.float64]) -> NDArray[np.int64]:
    """How many requests each instance works on at once, (I,), at least 1.

    ``max_num_seqs``, or as many as its KV blocks hold of ``prompt_tokens`` with an answer of
    ``length_tokens`` (M,), where that is fewer.
    """
    seats = []
    for instance in pool.instances:
        limits = instance.tier.limits
        tokens = min(prompt_tokens + float(length_tokens[instance.model_index]), limits.max_model_len)
        held = limits.kv_blocks // math.ceil(tokens / limits.block_size)
        seats.append(max(1, min(limits.max_num_seqs, held)))
    return np.array(seats, dtype=np.int64)


def room_of(seats: NDArray[np.int64]) -> int:
    """For requests in flight over instances with so many seats."""
    return math.ceil(PER_SEAT * int(seats.sum()))


class Room:
    """The bound on requests in flight: of all, and of those that can go to one model alone.

    ``admission.max_in_flight`` bounds all of them where it is given. Otherwise ``PER_SEAT`` for each seat of
    the instances that can be sent requests; where none can be, all count, since their requests are to hear
    just that, and not that there are too many of them.
    """

    def __init__(self, model_of_instance: NDArray[np.int64]) -> None:
        """Every instance can be sent requests until ``see`` says otherwise."""
        self._model = model_of_instance
        self._routable: NDArray[np.bool_] = np.ones(len(self._model), dtype=np.bool_)
        self._number = 0  # of the version that ``_known`` is about
        self._known: dict[int | None, int] = {}

    def see(self, routable: NDArray[np.bool_]) -> None:
        """Which instances can be sent requests now, (I,)."""
        if not np.array_equal(routable, self._routable):
            self._routable = routable
            self._known.clear()

    def most(self, version: Version, model: int | None = None) -> int:
        """How many may be in flight, of all requests or of those for ``model`` alone."""
        if version.number != self._number:
            self._number = version.number
            self._known.clear()
        if model not in self._known:
            self._known[model] = self._worked_out(version, model)
        return self._known[model]

    def _worked_out(self, version: Version, model: int | None) -> int:
        given = version.config.admission.max_in_flight
        if given is not None:
            return given
        counted = np.ones(len(self._model), dtype=np.bool_) if model is None else self._model == model
        up = counted & self._routable
        return room_of(version.seats[up if up.any() else counted])
