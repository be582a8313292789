"""``python -m tests.vllm.live_truth``: observe, fit and predict TTFT on a running vLLM CPU server.

Calibration and judged requests never mix: step times, throughput, survivors and the time outside the
engine (HTTP, tokenising) come from the first three runs, the tables from the rest. The predictions are
computed afterwards, from the state that was read at each sending.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import httpx
import numpy as np
from numpy.typing import NDArray
from scipy.stats import theilslopes

from rbx.engine.instance_profile import InstanceProfile, StepCoefficients
from rbx.engine.step_trace import read_step_trace
from rbx.heads.bea.survival import SurvivalTable
from rbx.heads.lps import Traffic as Mean
from rbx.heads.step_time.report import StepTimeReport
from rbx.heads.step_time.study import FitOptions, fit_step_time
from rbx.serve.observe.calibration_load import CalibrationLoad, LoadDesign
from rbx.serve.observe.recording import Recording
from rbx.serve.observe.server import identify
from rbx.serve.observe.session import observe
from rbx.serve.observe.step_ring import StepRing
from rbx.serve.state.published import PublishedState
from tests.vllm.live_estimators import ESTIMATORS, Calibration, Run, measured_s
from tests.vllm.live_report import Band, Campaign, Errors, show
from tests.vllm.live_server import LiveServer, serve
from tests.vllm.live_traffic import Traffic
from tests.vllm.tiny_model import make_model

Floats = NDArray[np.float64]

OPTIONS = ("--max-num-seqs", "16", "--max-num-batched-tokens", "256", "--max-model-len", "2048")


@dataclass(frozen=True)
class Plan:
    """Seconds of each part, and the loads to judge at, as shares of the capacity measured before."""

    observe_s: float
    capacity_s: float
    constant_s: float
    band_s: float
    bands: tuple[float, ...]
    prompts: tuple[int, int] = (16, 1024)
    hidden: int = 384
    seed: int = 0


WHOLE = Plan(90.0, 30.0, 30.0, 90.0, (0.3, 0.6, 0.9))


def run(plan: Plan, folder: Path) -> Campaign:
    """Serve a tiny model and go through the plan; ``folder`` takes model, log, state and trace."""
    with live_server(plan, folder) as server:
        return asyncio.run(campaign(plan, server, folder))


def live_server(plan: Plan, folder: Path) -> AbstractContextManager[LiveServer]:
    """A server of one compute thread, which leaves a core for the API server and the client."""
    environment = {"VLLM_CPU_OMP_THREADS_BIND": "0", "VLLM_PLUGINS": "rbx-state"}
    return serve(make_model(folder / "model", hidden=plan.hidden), folder, OPTIONS, environment)


async def campaign(plan: Plan, server: LiveServer, folder: Path) -> Campaign:
    """Go through the plan on a running server."""
    fit = await _observe(plan, server, folder)
    chosen = fit.model(fit.recommended)
    coefficients = StepCoefficients(
        chosen.feature_set, chosen.fit_id, tuple(c.seconds for c in chosen.coefficients)
    )
    state = PublishedState(server.state, coefficients)
    traffic = _traffic(plan, server, state, "full")
    capacity_per_s = await traffic.closed(24, plan.capacity_s)
    calibration = _calibration(state.profile, traffic, folder / "trace.parquet")
    outside = await _outside(plan, server, state)
    bands = []
    for share in plan.bands:
        load_average = os.getloadavg()[0]
        seen = await _poisson(plan, server, state, f"at{share:g}", share * capacity_per_s, plan.band_s)
        bands.append(_judge(share, seen, calibration, outside, load_average))
    return Campaign(fit, calibration, capacity_per_s, outside, tuple(bands))


async def _observe(plan: Plan, server: LiveServer, folder: Path) -> StepTimeReport:
    """The path of ``rbx pool observe --drive`` and ``rbx train step-time``."""
    with httpx.Client() as client:
        identity = identify(server.url, client)
    low, high = plan.prompts
    design = LoadDesign((1, 2, 4, 8, 16, 24), longest_prompt=high, longest_answer=128, shortest_prompt=low)
    recording = Recording(StepRing(server.state))
    load = CalibrationLoad(identity, design, np.random.default_rng(plan.seed))
    await observe(recording, load, plan.observe_s, lambda moment: None)
    trace = folder / "trace.parquet"
    recording.write(trace, {"url": identity.url})
    return fit_step_time([read_step_trace(trace)], FitOptions(block_s=plan.observe_s / 24))


def _calibration(profile: InstanceProfile, traffic: Traffic, path: Path) -> Calibration:
    trace = read_step_trace(path)
    full = trace.prefill_tokens >= 0.9 * profile.limits.max_num_batched_tokens
    decodes = (trace.prefill_tokens == 0) & (trace.decodes > 0)
    prompts = np.array([answer.prompt_tokens for answer in traffic.answers()])
    totals = np.array([answer.total_tokens for answer in traffic.answers()])
    return Calibration(
        profile,
        float(trace.prefill_tokens[full].sum() / trace.interval_s[full].sum()),
        float(trace.interval_s[decodes].mean()),
        SurvivalTable.fit(prompts, totals),
        Mean(float(prompts.mean()), float(totals.mean()), float(totals.var() / totals.mean() ** 2)),
    )


async def _outside(plan: Plan, server: LiveServer, state: PublishedState) -> tuple[float, float]:
    """Seconds a + b·prompt tokens that a request spends outside the engine, there and back.

    From requests that are alone: their TTFT less the time from the start of their first step to the end
    of their last one with prompt tokens, as the server recorded it. A Theil–Sen line. No step-time model
    has a part in it, so it can't hide the errors of one.
    """
    ring = StepRing(server.state)
    ring.take()
    traffic = _traffic(plan, server, state, "alone")
    await traffic.closed(1, plan.constant_s)
    steps, _ = ring.take()
    chunks = np.flatnonzero(steps["prefill_tokens"] > 0)
    outside, prompts = [], []
    for answer in traffic.answers():
        first = int(np.searchsorted(steps["start_s"], answer.sent_s))
        last = int(chunks[np.searchsorted(steps["end_s"][chunks], answer.first_s) - 1])
        inside_s = float(steps["end_s"][last] - steps["start_s"][first])
        outside.append(answer.first_s - answer.sent_s - inside_s)
        prompts.append(answer.prompt_tokens)
    slope = float(theilslopes(outside, prompts)[0])
    return float(np.median(np.array(outside) - slope * np.array(prompts))), slope


async def _poisson(
    plan: Plan, server: LiveServer, state: PublishedState, label: str, per_s: float, seconds: float
) -> Run:
    ring = StepRing(server.state)
    ring.take()
    traffic = _traffic(plan, server, state, label)
    await traffic.poisson(per_s, seconds)
    steps, lost = ring.take()
    assert lost == 0
    return Run(traffic.sent, steps, per_s)


def _traffic(plan: Plan, server: LiveServer, state: PublishedState, label: str) -> Traffic:
    rng = np.random.default_rng([plan.seed, *label.encode()])
    return Traffic(server.port, state, rng, label, plan.prompts)


def _prompts(seen: Run) -> Floats:
    return np.array([float(sent.answer.prompt_tokens) for sent in seen.sent])


def _judge(
    share: float,
    seen: Run,
    calibration: Calibration,
    outside: tuple[float, float],
    load_average: float,
) -> Band:
    measured, prompts = measured_s(seen), _prompts(seen)
    bare, whole = {}, {}
    for name, estimate in ESTIMATORS.items():
        predicted = estimate(seen, calibration)
        bare[name] = Errors.of(predicted, measured)
        whole[name] = Errors.of(predicted + outside[0] + outside[1] * prompts, measured)
    return Band(share, seen.per_s, measured, bare, whole, load_average)


def main() -> int:
    """The whole campaign."""
    with tempfile.TemporaryDirectory(prefix="rbx-live-") as folder:
        show(run(WHOLE, Path(folder)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
