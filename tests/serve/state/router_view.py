"""A simulated instance under random traffic, and what a router in front of it gets to see."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from rbx.config.pool import Tier
from rbx.engine import instance_columns as inst
from rbx.engine.queues import next_arrival_s
from rbx.engine.simulator import EngineSim
from rbx.serve.state.shadow import Shadow
from rbx.serve.state.twin import given_tokens


@dataclass(frozen=True)
class Traffic:
    """Requests in order of arrival, all (n,); the router has not sent those that are ``foreign``."""

    at_s: NDArray[np.float64]
    prompt: NDArray[np.int64]
    output: NDArray[np.int64]
    predicted: NDArray[np.int64]
    foreign: NDArray[np.bool_]

    @classmethod
    def random(cls, rng: Generator, rate_per_s: float, n: int, foreign: float = 0.0) -> Traffic:
        """Poisson arrivals, exponential answers of 200 tokens, predictions off by ±50 % (log-normal)."""
        output = np.clip(rng.exponential(200.0, n).astype(np.int64), 1, 4000)
        predicted = np.maximum(1, (output * rng.lognormal(0.0, 0.5, n)).astype(np.int64))
        at_s = np.cumsum(rng.exponential(1.0 / rate_per_s, n))
        return cls(at_s, rng.integers(10, 990, n), output, predicted, rng.random(n) < foreign)


@dataclass(frozen=True)
class Link:
    """Delays between router and engine: each token's is drawn from [least, least + jitter]."""

    dispatch_s: float = 0.0
    token_s: float = 0.0
    jitter_s: float = 0.0
    gauges_every_s: float = 0.5


class RouterView:
    """One instance, its traffic, and a shadow that is told only what a router would see.

    Of the share ``plain`` of requests that is their end alone.
    """

    def __init__(
        self, tier: Tier, traffic: Traffic, link: Link, shadow: Shadow, rng: Generator, plain: float = 0.0
    ) -> None:
        self.engine, self.shadow, self.traffic = EngineSim([tier], len(traffic.at_s)), shadow, traffic
        self._tier, self._link, self._rng = tier, link, rng
        self._news: list[tuple[float, int, int, int]] = []  # when, order, request, tokens (−1: it has ended)
        self._plain = (
            rng.random(len(traffic.at_s)) < plain if plain else np.zeros(len(traffic.at_s), np.bool_)
        )
        self._given = np.zeros(len(traffic.at_s), dtype=np.int64)
        self._open: list[int] = []
        self._next_gauges_s = link.gauges_every_s
        self._order = 0
        self.told = 0

    def arrivals(self) -> Iterator[int]:
        """Each request of ours as it is about to be sent; it is sent when the iteration goes on."""
        for k, at_s in enumerate(self.traffic.at_s.tolist()):
            self._run(at_s)
            if not self.traffic.foreign[k]:
                yield k
            self._send(k, at_s)

    def _send(self, k: int, at_s: float) -> None:
        traffic = self.traffic
        prompt, predicted = int(traffic.prompt[k]), int(traffic.predicted[k])
        delay_s = self._link.dispatch_s
        self.engine.submit(0, at_s + delay_s, prompt, int(traffic.output[k]), predicted)
        self._open.append(k)
        if not traffic.foreign[k]:
            cap = self._tier.limits.max_model_len - prompt
            self.shadow.dispatched(str(k), at_s, prompt, cap, predicted, streams=not self._plain[k])

    def finish(self) -> None:
        """Run until every request is done and told."""
        while self._open:
            self._run(self.engine.clock_s + 1.0)
        self._tell(np.inf)

    def _run(self, until_s: float) -> None:
        """Step by step to ``until_s``, with gauges and tokens told as they come."""
        while True:
            stop_s = min(until_s, self._next_gauges_s)
            state = self.engine.state
            stepping = bool(state.counts[0, inst.STEPPING])
            due_s = float(state.times[0, inst.END_S if stepping else inst.FORM_S])
            if not stepping:  # a batch is formed only when time has moved on
                due_s = float(np.nextafter(min(due_s, next_arrival_s(state, 0)), np.inf))
            if due_s < stop_s:
                self.engine.advance(max(due_s, self.engine.clock_s))
                if stepping:
                    self._note_tokens()
                continue
            self.engine.advance(stop_s)
            self._note_tokens()
            self._tell(stop_s)
            if stop_s < self._next_gauges_s:
                return
            self._next_gauges_s += self._link.gauges_every_s
            self._tell_gauges(stop_s)

    def _note_tokens(self) -> None:
        done_s, at_s = self.engine.done_s, self.engine.clock_s
        ended = []
        for k in self._open:
            given = given_tokens(self.engine.state, k)
            if given > self._given[k]:
                self._given[k] = given
                if not self.traffic.foreign[k]:
                    self._post(at_s, k, given)
            if done_s[k] <= at_s:
                ended.append(k)
        for k in ended:
            self._open.remove(k)

    def _post(self, at_s: float, k: int, given: int) -> None:
        arrives_s = at_s + self._link.token_s + float(self._rng.uniform(0.0, self._link.jitter_s))
        if not self._plain[k]:
            heapq.heappush(self._news, (arrives_s, self._order, k, given))
            self._order += 1
        if self.engine.done_s[k] <= at_s:
            heapq.heappush(self._news, (arrives_s, self._order, k, -1))
            self._order += 1

    def _tell(self, until_s: float) -> None:
        while self._news and self._news[0][0] <= until_s:
            at_s, _, k, given = heapq.heappop(self._news)
            self.told += 1
            if given < 0:
                self.shadow.finished(str(k), at_s)
            else:
                self.shadow.tokens(str(k), given, at_s)

    def _tell_gauges(self, at_s: float) -> None:
        seen = self.engine.telemetry()
        used = 1.0 - float(seen.free_blocks[0]) / float(seen.total_blocks[0])
        self.shadow.gauges(int(seen.running[0]), int(seen.waiting[0]), used, at_s)
