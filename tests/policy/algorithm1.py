"""Algorithm 1 read step by step in plain Python: the oracle of the compiled kernels.

Written from the formulas (docs/decisions.md), with lists and dicts, sharing no code with ``rbx.policy``
beyond its data types.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field


@dataclass
class Server:
    model: int
    price_in_usd: float
    price_out_usd: float
    max_num_seqs: int
    max_model_len: int
    running: int = 0
    waiting: int = 0
    pending_prefill: int = 0
    pending_decode: float = 0.0
    alive: bool = True
    last_used: int = -1


@dataclass
class Ask:
    input_tokens: int
    max_tokens: int
    budget_usd: float
    quality: list[float]
    length: list[float]


@dataclass
class Placed:
    instance: int
    cap: int = 0
    length: float = 0.0
    latency_s: float = field(default=math.nan)


def _length(ask: Ask, server: Server) -> float:
    return min(ask.length[server.model], float(ask.max_tokens))


def _latency_s(ask: Ask, server: Server, tpot_s: float) -> float:
    slot_free = server.running < server.max_num_seqs and server.waiting == 0
    if slot_free:
        return tpot_s * _length(ask, server)
    return tpot_s * (server.pending_decode / max(server.running, 1) + _length(ask, server))


def _cost_usd(ask: Ask, server: Server) -> float:
    return ask.input_tokens * server.price_in_usd + _length(ask, server) * server.price_out_usd


def _cap(ask: Ask, server: Server) -> int:
    cap = min(ask.max_tokens, server.max_model_len - ask.input_tokens)
    if math.isfinite(ask.budget_usd) and server.price_out_usd > 0:
        left = (ask.budget_usd - ask.input_tokens * server.price_in_usd) / server.price_out_usd
        cap = min(cap, math.floor(max(left, 0.0) * (1 + 1e-9)))
    return max(1, cap)


def _best(
    ask: Ask,
    servers: list[Server],
    latency: dict[int, float],
    cost: dict[int, float],
    weights: tuple[float, float, float],
    minmax: bool,
    by_latency: bool,
) -> int:
    affordable = [i for i in latency if cost[i] <= ask.budget_usd]
    if affordable:
        top_latency = max(latency[i] for i in affordable)
        top_cost = max(cost[i] for i in affordable)
        qualities = [ask.quality[servers[i].model] for i in affordable]
        low, high = min(qualities), max(qualities)

        def score(i: int) -> float:
            q = ask.quality[servers[i].model]
            if minmax:
                q = (q - low) / (high - low) if high > low else 0.0
            value = weights[0] * q
            value += weights[1] * (1.0 - (latency[i] / top_latency if top_latency > 0 else 0.0))
            value += weights[2] * (1.0 - (cost[i] / top_cost if top_cost > 0 else 0.0))
            return value

        scores = {i: score(i) for i in affordable}
        tied = [i for i in affordable if scores[i] == max(scores.values())]
        if by_latency:
            tied = [i for i in tied if latency[i] == min(latency[k] for k in tied)]
    else:
        tied = [i for i in cost if cost[i] == min(cost.values())]
    return min(tied, key=lambda i: (servers[i].running + servers[i].waiting, servers[i].last_used, i))


def assign(
    asks: list[Ask],
    servers: list[Server],
    tpot_s: list[float],
    weights: tuple[float, float, float],
    *,
    minmax: bool,
    by_latency: bool = False,
    sequence: int = 0,
) -> list[Placed]:
    placed = []
    for position, ask in enumerate(asks):
        possible = [i for i, s in enumerate(servers) if s.alive and ask.input_tokens + 1 <= s.max_model_len]
        if not possible:
            placed.append(Placed(-1))
            continue
        latency = {i: _latency_s(ask, servers[i], tpot_s[i]) for i in possible}
        cost = {i: _cost_usd(ask, servers[i]) for i in possible}
        best = _best(ask, servers, latency, cost, weights, minmax, by_latency)
        server = servers[best]
        placed.append(Placed(best, _cap(ask, server), _length(ask, server), latency[best]))
        if server.running < server.max_num_seqs and server.waiting == 0:
            server.running += 1
        else:
            server.waiting += 1
        server.pending_prefill += ask.input_tokens
        server.pending_decode += _length(ask, server)
        server.last_used = sequence + position
    return placed
