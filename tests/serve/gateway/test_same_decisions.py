"""The gateway decides as the simulator does: one sequence of events, two drivers, the same assignments."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from rbx.config.base import parse
from rbx.config.gateway import GatewayConfig
from rbx.engine.telemetry import PoolTelemetry
from rbx.heads.bea.unseen import NOTHING_UNSEEN, UnseenRequests, waiting_row
from rbx.heads.bundle import Bundle
from rbx.policy.base import Assignment
from rbx.policy.build import build_policy
from rbx.policy.pool_state import PoolShape
from rbx.policy.request_table import RequestTable
from rbx.scheduler.runtime import SchedulerRuntime
from rbx.serve.gateway.decider import Placement
from rbx.serve.gateway.foresight import Foresight
from rbx.serve.gateway.latency_model import latency_model
from rbx.serve.gateway.version import NO_TIME, Surroundings, build_version, typical_prompt_tokens
from rbx.serve.upstream.breaker import Breakers
from rbx.serve.watch.sight import PoolSight
from tests.serve.gateway.serving import small_pool
from tests.serve.gateway.stand_in import StandInWatch

N = 300
POOL = small_pool()
N_INSTANCES = len(POOL.instances)


@dataclass
class Recording:
    """Arrivals in bursts, and telemetry that changes every 30 ms without regard to what was sent."""

    arrived_s: list[float]
    texts: list[str]
    tokens: list[int]
    caps: list[int]
    budgets: list[float]

    @classmethod
    def drawn(cls) -> Recording:
        rng = np.random.default_rng(3)
        gaps = np.where(rng.random(N) < 0.5, 0.0, rng.exponential(0.03, N))
        topics = ("algebra", "poetry", "history", "coding")
        budgets = np.where(rng.random(N) < 0.3, rng.uniform(1e-6, 6e-5, N), np.inf)
        return cls(
            np.cumsum(gaps).round(6).tolist(),
            [f"{topics[k]} question {q}" for q, k in enumerate(rng.integers(0, 4, N))],
            rng.integers(1, 900, N).tolist(),
            rng.integers(1, 600, N).tolist(),
            budgets.tolist(),
        )

    def telemetry(self, now_s: float) -> PoolTelemetry:
        rng = np.random.default_rng(int(now_s / 0.03))
        blocks = np.full(N_INSTANCES, 1000)
        return PoolTelemetry(
            stamp_s=np.full(N_INSTANCES, int(now_s / 0.03) * 0.03),
            running=rng.integers(0, 17, N_INSTANCES),
            waiting=rng.integers(0, 2, N_INSTANCES) * rng.integers(0, 9, N_INSTANCES),
            pending_prefill_tokens=rng.integers(0, 3000, N_INSTANCES),
            pending_decode_tokens=rng.integers(0, 5000, N_INSTANCES),
            decode_context_tokens=rng.integers(0, 9000, N_INSTANCES),
            free_blocks=blocks - rng.integers(0, 1000, N_INSTANCES),
            total_blocks=blocks,
            received=np.zeros(N_INSTANCES, dtype=np.int64),
        )


class RecordedWatch(StandInWatch):
    """Shows the recording; of its own dispatches it knows that no state shows them."""

    def __init__(self, recording: Recording) -> None:
        super().__init__(POOL)
        self._recording = recording
        self._sent: list[list[tuple[float, int, int, float]]] = [[] for _ in range(N_INSTANCES)]

    def dispatched(
        self,
        i: int,
        request_id: str,
        now_s: float,
        prompt_tokens: int,
        cap_tokens: int,
        predicted_tokens: int,
        *,
        streams: bool,
    ) -> None:
        self._sent[i].append((now_s, prompt_tokens, cap_tokens, predicted_tokens))

    def view(self, now_s: float, *, snapshots: bool = True) -> PoolSight:
        unseen: list[UnseenRequests] = [NOTHING_UNSEEN] * N_INSTANCES
        for i, sent in enumerate(self._sent):
            if sent:
                rows = np.array([waiting_row(*each[1:]) for each in sent])
                unseen[i] = UnseenRequests(np.array([each[0] for each in sent]), rows)
        zeros = np.zeros(N_INSTANCES)
        told = self._recording.telemetry(now_s)
        return PoolSight(
            now_s, told, (), tuple(unseen), ("r",) * N_INSTANCES, zeros, self.ready, zeros.astype(np.int64)
        )


def simulated(
    recording: Recording, config: GatewayConfig, bundle: Bundle
) -> dict[int, tuple[int, int, float]]:
    """The loop of ``rbx.sweep.simulate``, which hands the runtime whatever is due."""
    shape = PoolShape.of(POOL)
    found = bundle.knn.predict(bundle.encode(recording.texts))
    table = RequestTable(
        np.array(recording.tokens),
        np.array(recording.caps),
        np.array(recording.budgets),
        found.quality,
        np.maximum(found.length_tokens, 1.0),
        np.full(N, np.inf),
    ).checked()
    single = config.single_policy(POOL.models)
    latency = latency_model(POOL, bundle, typical_prompt_tokens(config, bundle), config.max_output_tokens)
    policy = build_policy(single, POOL.models, bundle.tpot, latency, np.random.default_rng([0, 0]))
    runtime = SchedulerRuntime(config.scheduler, policy, shape, table, NO_TIME, batched=single.batched)
    watch = RecordedWatch(recording)
    placed: dict[int, tuple[int, int, float]] = {}
    position = 0
    while True:
        closes_s = runtime.closes_s()
        if position < N and recording.arrived_s[position] <= closes_s:
            runtime.submit(position, recording.arrived_s[position])
            position += 1
            continue
        if closes_s == np.inf:
            return placed
        batch = runtime.close(closes_s)
        sight = watch.view(closes_s)
        decision = runtime.decide(batch, sight.telemetry, batch.ready_s, (), sight.unseen)
        answer: Assignment = decision.assignment
        for k, row in enumerate(decision.requests.tolist()):
            i, cap = int(answer.instance[k]), int(answer.max_tokens[k])
            placed[row] = (i, cap, closes_s)
            if i >= 0:
                length = max(1, round(float(answer.length_tokens[k])))
                watch.dispatched(i, str(row), closes_s, recording.tokens[row], cap, length, streams=True)


class EventTime:
    """A clock that stands still, moved from event to event by the driver of the gateway's decider."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


async def live(
    recording: Recording, config: GatewayConfig, bundle: Bundle
) -> dict[int, tuple[int, int, float]]:
    """The gateway's decider, its loop's waits replaced by moves of the clock to the next event."""
    clock = EventTime()
    breakers = Breakers(config.breaker, [instance.tier.model for instance in POOL.instances])
    foresight = Foresight(bundle, len(POOL.models), config.max_output_tokens)
    around = Surroundings(POOL, bundle, foresight, RecordedWatch(recording), breakers, clock, 0)
    decider = build_version(1, config, around).decider
    asked: dict[int, asyncio.Task[Placement]] = {}
    for q in range(N):
        await settle(decider, clock, until_s=recording.arrived_s[q])
        clock.now_s = recording.arrived_s[q]
        row = decider.live.take(
            recording.texts[q], recording.tokens[q], recording.caps[q], recording.budgets[q], np.inf
        )
        decider.begin()
        asked[q] = asyncio.create_task(decider.place(row, str(q), clock.now_s, streams=True))
        if q + 1 == N or recording.arrived_s[q + 1] > clock.now_s:
            await asyncio.sleep(0)
    await settle(decider, clock, until_s=np.inf)
    placed = {q: await task for q, task in asked.items()}
    foresight.close()
    return {q: (p.instance, p.max_tokens, p.decided_s) for q, p in placed.items()}


async def settle(decider: Any, clock: EventTime, until_s: float) -> None:
    """Let every batch close that is due before ``until_s``, each at its time."""
    while True:
        await asyncio.sleep(0)
        if decider._deciding:
            await asyncio.sleep(0.0005)
            continue
        due_s = decider._runtime.closes_s()
        if not due_s < until_s:
            return
        clock.now_s = max(clock.now_s, due_s)
        decider._arrival.set()


@pytest.mark.parametrize(
    "policy",
    [
        {"kind": "routebalance", "weights": [[0.4, 0.3, 0.3]]},
        {"kind": "routebalance", "weights": [[0.2, 0.4, 0.4]], "latency": ["prior"], "quality": ["minmax"]},
        {"kind": "passthrough", "dispatch": ["shortest-queue"]},
        {"kind": "mix", "shares": {"large": 1.0, "tiny": 2.0}, "dispatch": ["random"]},
        {"kind": "score"},
    ],
    ids=["routebalance", "prior", "shortest-queue", "mix", "score"],
)
@pytest.mark.parametrize("mode", ["adaptive", "fixed"])
def test_one_recording_two_drivers_one_answer(bundle: Bundle, policy: dict[str, Any], mode: str) -> None:
    recording = Recording.drawn()
    batching = {"mode": mode, "eager": False}
    given = {"policy": policy, "scheduler": {"batching": batching}, "admission": {"max_in_flight": N}}
    config = parse(GatewayConfig, given, where="test")
    expected = simulated(recording, config, bundle)
    found = asyncio.run(live(recording, config, bundle))
    assert len(expected) == N
    assert len({i for i, _, _ in expected.values()}) >= 4
    assert found == expected
