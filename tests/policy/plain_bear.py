"""BEAR's rules and SCORE's value read step by step in plain Python: the oracle of the routers.

Written from the formulas (docs/bear.md) over the plain scenes, sharing no code with ``rbx.policy``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from tests.policy.algorithm1 import Ask, Server

Number = Callable[[int], float]


@dataclass
class Choice:
    instance: int
    mode: str = "policy"
    on_time: int = -1
    ttft_s: float = math.nan
    cap: int = 0
    length: float = 0.0


def length_of(ask: Ask, server: Server) -> float:
    return min(ask.length[server.model], float(ask.max_tokens))


def cost_usd(ask: Ask, server: Server) -> float:
    return ask.input_tokens * server.price_in_usd + length_of(ask, server) * server.price_out_usd


def fits(ask: Ask, server: Server) -> bool:
    return server.alive and ask.input_tokens + 1 <= server.max_model_len


def within_budget(ask: Ask, servers: list[Server]) -> list[int]:
    """Candidates that the budget allows; the cheapest ones if it allows none."""
    room = [i for i, server in enumerate(servers) if fits(ask, server)]
    cost = {i: cost_usd(ask, servers[i]) for i in room}
    allowed = [i for i in room if cost[i] <= ask.budget_usd]
    return allowed or [i for i in room if cost[i] == min(cost.values())]


def largest(among: list[int], value: Number, servers: list[Server]) -> int:
    top = max(value(i) for i in among)
    tied = [i for i in among if value(i) == top]
    return min(tied, key=lambda i: (servers[i].running + servers[i].waiting, servers[i].last_used, i))


def cap_of(ask: Ask, server: Server) -> int:
    cap = min(ask.max_tokens, server.max_model_len - ask.input_tokens)
    if math.isfinite(ask.budget_usd) and server.price_out_usd > 0:
        left = (ask.budget_usd - ask.input_tokens * server.price_in_usd) / server.price_out_usd
        cap = min(cap, math.floor(max(left, 0.0) * (1 + 1e-9)))
    return max(1, cap)


def send(ask: Ask, server: Server, sequence: int) -> None:
    """Dead reckoning."""
    if server.running < server.max_num_seqs and server.waiting == 0:
        server.running += 1
    else:
        server.waiting += 1
    server.pending_prefill += ask.input_tokens
    server.pending_decode += length_of(ask, server)
    server.last_used = sequence


def bear(
    asks: list[Ask],
    servers: list[Server],
    ttft_s: Callable[[Ask, Server, int], float],
    target_s: list[float],
    *,
    rule: str,
    fallback: str = "min-ttft",
    per_usd: float = 500.0,
    delta: float = 0.0,
    safety_s: float = 0.0,
) -> list[Choice]:
    """Places the requests in order; ``servers`` end as the router should leave its state."""
    choices, sequence = [], 0
    for k, ask in enumerate(asks):
        among = within_budget(ask, servers)
        if not among:
            choices.append(Choice(-1))
            continue
        ttft = {i: ttft_s(ask, servers[i], i) for i in among}
        utility = {i: ask.quality[servers[i].model] - per_usd * cost_usd(ask, servers[i]) for i in among}
        feasible = [i for i in among if ttft[i] + safety_s <= target_s[k]]
        mode = "policy"
        if rule == "soft":
            net = {i: utility[i] - delta * ttft[i] for i in among}
            best = largest(among, net.__getitem__, servers)
        elif feasible:
            best = largest(feasible, utility.__getitem__, servers)
        elif fallback == "shed":
            choices.append(Choice(-1, "shed", 0))
            continue
        else:
            mode, sign = "hopeless", 1.0 if fallback == "sacrifice" else -1.0
            hopeless = {i: sign * ttft[i] for i in among}
            best = largest(among, hopeless.__getitem__, servers)
        server = servers[best]
        choices.append(
            Choice(best, mode, len(feasible), ttft[best], cap_of(ask, server), length_of(ask, server))
        )
        send(ask, server, sequence)
        sequence += 1
    return choices
