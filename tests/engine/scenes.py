"""Random tiers and requests, and the compiled engine beside its plain reading."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from rbx.config.pool import EngineLimits, StepTime, StepTimeA, StepTimeB, StepTimeC, Tier
from rbx.engine import instance_columns as inst
from rbx.engine.simulator import EngineSim
from tests.engine.oracle import Instance, Request

Columns = tuple[NDArray[Any], ...]

# With coefficients and arrivals that are sums of few powers of two every time is exact in floating
# point, so a request can arrive exactly when a step ends, in both engines.
GRID_S = 2.0**-20


def tier(
    *,
    b0_s: float = 0.01,
    b1_s: float = 2e-5,
    b2_s: float = 1e-7,
    b3_s: float = 1e-9,
    **limits: int,
) -> Tier:
    values = {"max_num_seqs": 64, "max_num_batched_tokens": 512, "max_model_len": 2048, "kv_blocks": 400}
    return Tier(
        name="tier",
        model="model",
        gpu="GPU",
        instances=1,
        price_in_usd_per_mtok=0.1,
        price_out_usd_per_mtok=0.1,
        tpot_prior_s=b0_s,
        limits=EngineLimits.model_validate({**values, **limits}),
        step_time=StepTimeA(
            b0_s=b0_s,
            b1_s_per_token=b1_s,
            b2_s_per_context_token=b2_s,
            b3_s_per_attention_unit=b3_s,
            source="made up for a test",
        ),
    )


def random_tier(rng: Generator, *, exact: bool) -> Tier:
    """A tight or roomy cache, few or many seats, small or large budgets, both modes of scheduling."""
    block_size = int(rng.choice([1, 3, 8, 16]))
    max_model_len = int(rng.choice([24, 64, 200]))
    seats = int(rng.choice([1, 2, 4, 12]))
    chunked = bool(rng.random() < 0.8)
    budget = max(seats, int(rng.choice([seats, seats + 3, 32, 256])))
    least = -(-max_model_len // block_size)
    b0_s, b1_s, b2_s, b3_s = (2.0**-7, 2.0**-13, 2.0**-17, GRID_S) if exact else (0.01, 1e-4, 1e-5, 1e-6)
    return tier(
        b0_s=b0_s * float(rng.choice([1, 32])),
        b1_s=b1_s * float(rng.choice([0, 1])),
        b2_s=b2_s * float(rng.choice([0, 1])),
        b3_s=b3_s * float(rng.choice([0, 1])),
        max_num_seqs=seats,
        max_num_batched_tokens=budget if chunked else max(budget, max_model_len),
        max_model_len=max_model_len,
        block_size=block_size,
        kv_blocks=int(rng.choice([least, least + 1, 2 * least, 20 * least])),
        chunked_prefill=chunked,
        async_scheduling=bool(rng.random() < 0.6),
        reserve_full_prompt=bool(rng.random() < 0.6),
    )


def priced_by(server: Tier, feature_set: str, rng: Generator, *, exact: bool) -> Tier:
    """The same tier with random prices of another feature set, each but the first now and then nil."""
    b0_s, *slopes = (2.0**-7, *2.0 ** -np.array([13, 11, 17, 22, 21])) if exact else (
        0.01, 1e-4, 3e-4, 1e-5, 3e-7, 1e-6
    )  # fmt: skip
    drawn = [float(price) * float(rng.choice([0, 1])) for price in slopes]
    prefill, decode, context, squared, cross = drawn
    step_time: StepTime
    if feature_set == "B":
        step_time = StepTimeB(
            feature_set="B", b0_s=b0_s, prefill_s_per_token=prefill, decode_s_per_seq=decode,
            context_s_per_token=context, chunk_s_per_squared_token=squared,
            cross_s_per_token_pair=cross, source="made up for a test",
        )  # fmt: skip
    elif feature_set == "C":
        step_time = StepTimeC(
            feature_set="C", b0_s=b0_s, prefill_s_per_token=prefill, decode_s_per_seq=decode,
            source="made up for a test",
        )  # fmt: skip
    else:
        step_time = StepTimeA(
            b0_s=b0_s, b1_s_per_token=decode, b2_s_per_context_token=context,
            b3_s_per_attention_unit=cross, source="made up for a test",
        )  # fmt: skip
    return server.model_copy(update={"step_time": step_time})


@dataclass(frozen=True)
class Workload:
    """Columns of ``EngineSim.submit_many``, shape (n,)."""

    instance: NDArray[np.int64]
    at_s: NDArray[np.float64]
    prompt: NDArray[np.int64]
    output: NDArray[np.int64]
    predicted: NDArray[np.int64]
    by_length: NDArray[np.bool_]

    def rows(self, chosen: NDArray[np.int64]) -> Columns:
        every = (self.instance, self.at_s, self.prompt, self.output, self.predicted, self.by_length)
        return tuple(column[chosen] for column in every)


def random_workload(rng: Generator, tiers: list[Tier], n: int, *, exact: bool) -> Workload:
    """Bursts, steps' ends and odd moments; answers of one token up to the whole context."""
    instance = rng.integers(0, len(tiers), n)
    room = np.array([t.limits.max_model_len for t in tiers])[instance]
    prompt = np.clip((rng.beta(0.7, 2.0, n) * room).astype(np.int64), 1, room - 1)
    output = np.minimum(rng.geometric(rng.choice([0.5, 0.1, 0.02]), n), room - prompt)
    at_s = rng.uniform(0.0, float(rng.choice([0.0, 0.5, 5.0, 40.0])), n)
    if exact:
        grid_s = float(rng.choice([GRID_S, 2.0**-7, 2.0**-2]))
        at_s = np.round(at_s / grid_s) * grid_s
    if rng.random() < 0.8:
        at_s = np.sort(at_s)
    predicted = np.maximum(1, (output * rng.uniform(0.3, 2.0, n)).astype(np.int64))
    return Workload(instance, at_s, prompt, output, predicted, rng.random(n) < 0.4)


class Pair:
    """The engine under test and its plain reading, fed the same."""

    def __init__(self, tiers: list[Tier], capacity: int, rtol: float = 1e-9) -> None:
        self.engine = EngineSim(tiers, capacity)
        self.instances = [Instance(t) for t in tiers]
        self.requests: list[Request] = []
        self.rtol = rtol

    def submit(self, columns: Columns) -> None:
        self.engine.submit_many(*columns)
        for i, *rest in zip(*(column.tolist() for column in columns), strict=True):
            request = Request(len(self.requests), *rest)
            self.requests.append(request)
            self.instances[i].submit(request)

    def advance(self, until_s: float) -> None:
        self.engine.advance(until_s)
        for instance in self.instances:
            instance.advance(until_s)

    def drain(self) -> None:
        self.engine.drain()
        for instance in self.instances:
            instance.advance(np.inf)

    def assert_same_results(self) -> None:
        """Times by slot, NaN included, and preemptions."""
        for name in ("first_scheduled_s", "first_token_s", "done_s"):
            expected = np.array([getattr(request, name) for request in self.requests])
            actual = getattr(self.engine, name)
            np.testing.assert_allclose(actual, expected, rtol=self.rtol, err_msg=name)
        assert self.engine.preemptions.tolist() == [request.preemptions for request in self.requests]

    def assert_same_state(self) -> None:
        """Telemetry, counts of steps, busy time and the make-up of the running step."""
        seen = self.engine.telemetry()
        assert set(seen.stamp_s) == {self.engine.clock_s}
        for k, instance in enumerate(self.instances):
            expected = instance.telemetry()
            assert {name: int(getattr(seen, name)[k]) for name in expected} == expected
            assert int(self.engine.steps[k]) == instance.steps
            busy_s = instance.busy_until(self.engine.clock_s)
            np.testing.assert_allclose(self.engine.busy_s[k], busy_s, rtol=1e-9, atol=1e-12)
            assert self._running_step(k) == (instance.flight and instance.flight[0].composition())

    def _running_step(self, k: int) -> tuple[int, ...] | None:
        row = self.engine._state.counts[k]
        if not row[inst.STEPPING]:
            return None
        grown = (row[inst.RUN_STEPS] - 1) * row[inst.RUN_DECODES]
        make_up = (row[inst.RUN_DECODES], row[inst.RUN_CONTEXT] + grown)
        return tuple(map(int, (*make_up, *row[inst.RUN_PREFILL_TOKENS : inst.RUN_PREFILL_CROSS + 1])))
