"""One TTFT prediction beside a plain replay of the same state, and its error by load.

The plain replay is the step-by-step reading of vLLM's scheduler that the tests hold the engine to; it
starts from the same moment and both must give the same answer. Errors are against what the simulated
instance then does while others keep arriving.
"""

from __future__ import annotations

import copy
import math
import statistics
import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rbx.config.pool import EngineLimits, StepTimeA, Tier
from rbx.engine.instance_profile import InstanceProfile
from rbx.engine.instance_snapshot import InstanceSnapshot
from rbx.engine.simulator import EngineSim
from rbx.engine.snapshot_export import export_snapshot
from rbx.heads.bea.lengths import LengthRule
from rbx.heads.bea.prediction import Probe, ReplayCaps
from rbx.heads.bea.survival import SurvivalTable
from rbx.heads.bea.ttft import predict_ttft
from rbx.heads.lps import Traffic, service_rates_per_s, slots_of
from tests.engine.oracle import Instance, Request

STATES, REPEATS, PROBE_TOKENS = 30, 5, 2000
FAR = ReplayCaps(horizon_s=1e6)
# Running, waiting, limits that differ from the defaults below.
SCENES: tuple[tuple[int, int, dict[str, int]], ...] = (
    (10, 0, {}),
    (50, 2, {}),
    (100, 10, {}),
    (64, 20, {"max_num_seqs": 64}),
    (200, 150, {}),
    (120, 60, {"kv_blocks": 7_000}),
)


def server(**limits: int) -> Tier:
    """Qwen3-8B on an H100 by the published coefficients, within the four-term model."""
    values = {"max_num_batched_tokens": 8192, "max_model_len": 16_384, "kv_blocks": 24_000, **limits}
    return Tier(
        name="qwen3-8b",
        model="Qwen3-8B",
        gpu="H100",
        instances=1,
        price_in_usd_per_mtok=0.07,
        price_out_usd_per_mtok=0.29,
        tpot_prior_s=0.0075,
        limits=EngineLimits.model_validate(values),
        step_time=StepTimeA(
            b0_s=7.3e-3,
            b1_s_per_token=2.1e-5,
            b2_s_per_context_token=4.65e-8,
            b3_s_per_attention_unit=1e-9,
            source="bench",
        ),
    )


@dataclass(frozen=True)
class State:
    snapshot: InstanceSnapshot
    plain: Instance
    now_s: float


def state(
    rng: np.random.Generator, tier: Tier, running: int, waiting: int, now_s: float | None = None
) -> State:
    """``running`` requests some way into their answers, ``waiting`` ones that have just come."""
    n, engine, plain = running + waiting, EngineSim([tier], running + waiting), Instance(tier)
    prompt, left = rng.integers(50, 1500, n), np.clip(rng.exponential(400.0, n).astype(int), 2, 4000)
    if now_s is None:
        now_s = float(rng.uniform(1.0, 3.0)) * (1.0 + running / 100.0)
    output = left + np.where(np.arange(n) < running, int(now_s / 0.012), 0)
    at_s = np.where(np.arange(n) < running, 0.0, now_s)
    engine.submit_many(np.zeros(n, int), at_s, prompt, output, output)
    for slot, row in enumerate(zip(at_s.tolist(), prompt.tolist(), output.tolist(), strict=True)):
        plain.submit(Request(slot, *row, predicted=row[2], by_length=False))
    engine.advance(now_s)
    plain.advance(now_s)
    return State(export_snapshot(engine, 0, InstanceProfile.of(tier)), plain, now_s)


def replay_plainly(start: State, prompt_tokens: int = PROBE_TOKENS) -> tuple[float, float]:
    """Processor seconds and the time to first token."""
    instance = copy.deepcopy(start.plain)
    probe = Request(-1, start.now_s, prompt_tokens, 1, 1, by_length=False)
    begin = time.perf_counter()
    instance.submit(probe)
    while math.isnan(probe.first_token_s):
        if instance.flight:
            instance.advance(instance.flight[2])
        else:
            instance.cross_boundary(start.now_s if math.isinf(instance.due_s) else instance.due_s)
    return time.perf_counter() - begin, probe.first_token_s - start.now_s


def speed_row(running: int, waiting: int, limits: dict[str, int]) -> dict[str, object]:
    rng = np.random.default_rng([running, waiting])
    ours, plainly, steps, preempting = [], [], [], 0
    probe = Probe(PROBE_TOKENS)
    for _ in range(STATES):
        start = state(rng, server(**limits), running, waiting)
        best = math.inf
        for _ in range(REPEATS):
            begin = time.perf_counter()
            predicted = predict_ttft(start.snapshot, probe, caps=FAR)
            best = min(best, time.perf_counter() - begin)
        plain, happened_s = replay_plainly(start)
        if not math.isclose(predicted.seconds, happened_s, rel_tol=1e-9):
            raise AssertionError(f"{predicted.seconds} s against {happened_s} s by the plain replay")
        ours.append(best * 1e6)
        plainly.append(plain * 1e6)
        steps.append(predicted.steps)
        preempting += int(predicted.flags != 0)
    note = "".join(f", {key} {value}" for key, value in limits.items())
    return {
        "path": f"bea: one prediction, {running} running, {waiting} waiting{note}",
        "ours": statistics.median(ours),
        "peer": statistics.median(plainly),
        "ratio": statistics.median(plainly) / statistics.median(ours),
        "peer_name": "plain replay, step by step",
        "unit": "µs",
        "slowest": max(ours),
        "median steps": statistics.median(steps),
        "preempting": f"{preempting} of {STATES}",
    }


@dataclass(frozen=True)
class Errors:
    """Relative errors of one way to guess lengths."""

    relative: NDArray[np.float64]

    def row(self) -> dict[str, float]:
        size = np.abs(self.relative)
        percent = {"ours": size.mean(), "median": np.median(size), "p90": np.quantile(size, 0.9)}
        return {key: 100.0 * float(value) for key, value in percent.items()} | {
            "bias": 100.0 * float(self.relative.mean())
        }


def error_rows(load: float, probes: int = 600) -> list[dict[str, object]]:
    """One instance at a share of its capacity; every request is predicted as it arrives."""
    tier = server(max_num_seqs=48)
    traffic, rng = Traffic(500.0, 200.0), np.random.default_rng(0)
    capacity = service_rates_per_s(InstanceProfile.of(tier), traffic, slots_of(tier.limits, traffic))[-1]
    n = 4 * probes
    at_s = np.cumsum(rng.exponential(1.0 / (load * float(capacity)), n))
    prompt, output = rng.integers(10, 990, n), np.clip(rng.exponential(200.0, n).astype(int), 1, 4000)
    guessed = np.maximum(1, (output * rng.lognormal(0.0, 0.5, n)).astype(int))
    past = np.clip(rng.exponential(200.0, 2000).astype(int), 1, 4000)
    survivors = LengthRule(SurvivalTable.fit(rng.integers(10, 990, 2000), past))
    both = LengthRule(survivors.survival, trust_predictions=True)
    engine, told = EngineSim([tier], n), np.full((5, n), np.nan)
    profile = InstanceProfile.of(tier)
    fixed_s, _, token_s, _, _, pair_s = profile.coefficients.as_b
    throughput = 1.0 / (token_s + pair_s * 250.0)
    for k in range(n):
        engine.advance(float(at_s[k]))
        if k >= n - probes:
            seen, exact = (
                export_snapshot(engine, 0, profile),
                export_snapshot(engine, 0, profile, true_lengths=True),
            )
            probe = Probe(int(prompt[k]))
            rules = ((exact, LengthRule()), (seen, LengthRule()), (seen, survivors), (seen, both))
            told[:4, k] = [predict_ttft(s, probe, lengths=rule, caps=FAR).seconds for s, rule in rules]
            backlog = float(engine.telemetry().pending_prefill_tokens[0])
            told[4, k] = (backlog + probe.prompt_tokens) / throughput + fixed_s
        engine.submit(0, float(at_s[k]), int(prompt[k]), int(output[k]), int(guessed[k]))
    engine.drain()
    ttft_s = (engine.first_token_s - at_s)[n - probes :]
    relative = told[:, n - probes :] / ttft_s - 1.0
    peer = 100.0 * float(np.abs(relative[4]).mean())
    names = ("true lengths", "lengths 50 % off", "survivors' medians", "predictions, then survivors")
    return [
        {
            "path": f"bea: TTFT error at {load:g} of capacity, {name}",
            **Errors(relative[k]).row(),
            "peer": peer,
            "peer_name": "prefill backlog ÷ throughput",
            "unit": "% of TTFT (mean)",
        }
        for k, name in enumerate(names)
    ]


def rows() -> list[dict[str, object]]:
    """Microseconds a prediction, then errors by load band."""
    speed_row(*SCENES[0])  # compiles
    table = [speed_row(*scene) for scene in SCENES]
    for load in (0.5, 0.8, 0.95, 1.05):
        table += error_rows(load)
    return table


if __name__ == "__main__":
    for row in rows():
        print(row)
