"""One request of a batch as each instance would serve it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rbx.policy.pool_state import PoolShape
from rbx.policy.request_table import Ints, RequestTable
from rbx.policy.view import PoolView

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Ask:
    """``position`` in the batch and ``row`` of the table; arrays (I,) follow the instances.

    ``length_tokens`` is the prediction for the instance's model, capped by ``max_tokens``; ``cost_usd``
    prices it. ``waited_s`` is what a TTFT from arrival has beyond the time at the instance.
    """

    position: int
    row: int
    input_tokens: int
    max_tokens: int
    budget_usd: float
    ttft_target_s: float
    waited_s: float
    quality: Floats
    length_tokens: Floats
    cost_usd: Floats


def asks(requests: Ints, table: RequestTable, view: PoolView, shape: PoolShape) -> Iterator[Ask]:
    """The requests of a batch in order."""
    max_tokens = table.max_tokens[requests]
    length = np.minimum(table.length_tokens[requests][:, shape.model], max_tokens[:, None])
    input_tokens = table.input_tokens[requests]
    cost_usd = input_tokens[:, None] * shape.price_in_usd + length * shape.price_out_usd
    quality = table.quality[requests][:, shape.model]
    columns = zip(
        requests.tolist(),
        input_tokens.tolist(),
        max_tokens.tolist(),
        table.budget_usd[requests].tolist(),
        table.ttft_target_s[requests].tolist(),
        (view.enters_s - view.arrived_s + view.returns_s).tolist(),
        quality,
        length,
        cost_usd,
        strict=True,
    )
    for position, values in enumerate(columns):
        yield Ask(position, *values)
