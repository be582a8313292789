"""Admission rules read one candidate at a time in plain Python, from docs/filters.md.

Shares no code with ``rbx.policy.filters``; residuals are lists, z comes from a table of the normal
distribution.
"""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass, field

from tests.policy.algorithm1 import Ask, Server

# One-sided z, to three places, as tables print it.
Z = {0.8: 0.842, 0.9: 1.282, 0.95: 1.645, 0.99: 2.326}


@dataclass
class Promise:
    ttft_s: float = math.inf
    tpot_s: float = math.inf
    e2e_s: float = math.inf


@dataclass
class Predictor:
    """TTFT = (pending prefill + prompt) / θ + waited; TPOT by instance; residuals by tier."""

    tokens_per_s: list[float]
    tpot_s: list[float]
    waited_s: list[float]
    ttft_residuals: list[list[float]] = field(default_factory=list)
    tpot_residuals: list[list[float]] = field(default_factory=list)

    def ttft_s(self, k: int, ask: Ask, i: int, server: Server) -> float:
        return (server.pending_prefill + ask.input_tokens) / self.tokens_per_s[i] + self.waited_s[k]


def length(ask: Ask, server: Server) -> float:
    return min(ask.length[server.model], float(ask.max_tokens))


def cost_usd(ask: Ask, server: Server) -> float:
    return ask.input_tokens * server.price_in_usd + length(ask, server) * server.price_out_usd


def share(residuals: list[float], slack_s: float) -> float:
    return sum(residual <= slack_s for residual in residuals) / len(residuals)


def passes(
    kind: str,
    ask: Ask,
    server: Server,
    i: int,
    ttft_s: float,
    predictor: Predictor,
    promise: Promise,
    *,
    thetas: tuple[float, float] = (0.7, 0.7),
    confidence: float = 0.95,
) -> bool:
    tpot_s, n = predictor.tpot_s[i], length(ask, server)
    if kind == "budget":
        return cost_usd(ask, server) <= ask.budget_usd
    if kind == "slos-serve":
        return ttft_s <= promise.ttft_s and tpot_s <= promise.tpot_s
    if kind == "polyserve":
        return ttft_s + n * tpot_s <= promise.ttft_s + n * promise.tpot_s
    if kind == "timebill":
        return ttft_s + n * tpot_s <= promise.e2e_s
    if kind == "qlm":
        margins = [
            Z[confidence] * statistics.pstdev(residuals[server.model])
            for residuals in (predictor.ttft_residuals, predictor.tpot_residuals)
        ]
        return ttft_s + margins[0] <= promise.ttft_s and tpot_s + margins[1] <= promise.tpot_s
    if kind == "cdf":
        p_ttft = share(predictor.ttft_residuals[server.model], promise.ttft_s - ttft_s)
        p_tpot = share(predictor.tpot_residuals[server.model], promise.tpot_s - tpot_s)
        affordable = cost_usd(ask, server) <= ask.budget_usd
        return affordable and p_ttft >= thetas[0] and p_tpot >= thetas[1]
    assert kind == "none"
    return True


def admitted(
    kind: str,
    k: int,
    ask: Ask,
    servers: list[Server],
    predictor: Predictor,
    promise: Promise,
    *,
    on_empty: str,
    tiered: bool = False,
) -> tuple[set[int], str]:
    """Who is left of those that can hold the prompt, and how."""
    can = [i for i, s in enumerate(servers) if s.alive and ask.input_tokens + 1 <= s.max_model_len]
    if not can:
        return set(), "strict"
    steps = [(7, 7)]
    if tiered:
        steps += [(6, 7), (6, 6), (5, 6), (5, 5), (4, 5), (4, 4)]
    for number, (ttft, tpot) in enumerate(steps):
        left = {
            i
            for i in can
            if passes(
                kind,
                ask,
                servers[i],
                i,
                predictor.ttft_s(k, ask, i, servers[i]),
                predictor,
                promise,
                thetas=(ttft / 10, tpot / 10),
            )
        }
        if left:
            return left, f"relaxed {number}" if number else "strict"
    if on_empty == "shed":
        return set(), "shed"
    if on_empty == "cheapest":
        least = min(cost_usd(ask, servers[i]) for i in can)
        return {i for i in can if cost_usd(ask, servers[i]) == least}, "cheapest"
    if kind in ("cdf", "budget"):
        affordable = {i for i in can if cost_usd(ask, servers[i]) <= ask.budget_usd}
        return affordable or set(can), "all"
    return set(can), "all"
