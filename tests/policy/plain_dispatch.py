"""Placing requests one by one by a score, read plainly: the oracle of the scored dispatchers."""

from __future__ import annotations

from collections.abc import Callable

from tests.policy.algorithm1 import Ask, Server
from tests.policy.plain_bear import fits, largest, send

PlainScore = Callable[[Ask, int], float]


def place_plainly(
    asks: list[Ask],
    servers: list[Server],
    score: PlainScore,
    sent: Callable[[Ask, int], None] = lambda ask, i: None,
) -> list[int]:
    """Instance of each request, lowest score first, −1 where nobody has room; updates ``servers``."""
    placed, sequence = [], 0
    for ask in asks:
        room = [i for i, server in enumerate(servers) if fits(ask, server)]
        if not room:
            placed.append(-1)
            continue
        value = {i: -score(ask, i) for i in room}
        best = largest(room, value.__getitem__, servers)
        placed.append(best)
        send(ask, servers[best], sequence)
        sent(ask, best)
        sequence += 1
    return placed
