"""Observe, fit, replay: a trace of an engine under load gives a tier that serves as the observed one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import yaml

from rbx.config.base import parse
from rbx.config.pool import StepTimeB, Tier
from rbx.engine.instance_profile import InstanceProfile
from rbx.engine.simulator import EngineSim
from rbx.engine.step_trace import StepTrace, read_step_trace, write_step_trace
from rbx.heads.step_time.design import usable_steps
from rbx.heads.step_time.report import pool_fragment
from rbx.heads.step_time.study import FitOptions, fit_step_time
from tests.engine.oracle import Composition, Instance, Request
from tests.engine.scenes import Workload, tier

NOISE = 0.05


class Observed(Instance):
    """The plain engine, its step times noisy, with a row for each step."""

    def record(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.rows: list[tuple[float, float, Composition]] = []

    def cross_boundary(self, now_s: float) -> None:
        super().cross_boundary(now_s)
        if self.flight is not None and (not self.rows or self.flight[1] > self.rows[-1][0]):
            batch, start_s, end_s = self.flight
            noisy_s = start_s + (end_s - start_s) * float(np.exp(NOISE * self.rng.standard_normal()))
            self.flight = (batch, start_s, noisy_s)
            self.rows.append((start_s, noisy_s, batch.composition()))


def workload(n: int, rate_per_s: float, seed: int) -> Workload:
    rng = np.random.default_rng(seed)
    prompt = np.clip(rng.lognormal(5.5, 0.9, n).astype(np.int64), 4, 1500)
    output = np.clip(rng.geometric(1 / 120, n), 1, 500)
    at_s = np.cumsum(rng.exponential(1 / rate_per_s, n))
    return Workload(np.zeros(n, dtype=np.int64), at_s, prompt, output, output, np.zeros(n, dtype=np.bool_))


def observe(server: Tier, requests: Workload, path: Path) -> StepTrace:
    instance = Observed(server)
    instance.record(np.random.default_rng(1))
    columns = (requests.at_s, requests.prompt, requests.output, requests.predicted, requests.by_length)
    for slot, row in enumerate(zip(*(column.tolist() for column in columns), strict=True)):
        instance.submit(Request(slot, *row))
    instance.advance(np.inf)
    compositions = np.array([row[2] for row in instance.rows])
    names = (
        "decodes", "decode_context_tokens", "prefill_tokens", "prefill_chunk_squared_tokens",
        "prefill_cross_tokens",
    )  # fmt: skip
    times = {"start_s": [row[0] for row in instance.rows], "end_s": [row[1] for row in instance.rows]}
    write_step_trace(path, {**times, **dict(zip(names, compositions.T, strict=True))}, {})
    return read_step_trace(path)


def mean_ttft_s(server: Tier, requests: Workload) -> float:
    engine = EngineSim([server], capacity=len(requests.at_s))
    engine.submit_many(*requests.rows(np.arange(len(requests.at_s))))
    engine.drain()
    return float(np.mean(engine.first_token_s - requests.at_s))


OWN_PRICES = StepTimeB(
    feature_set="B", b0_s=0.008, prefill_s_per_token=4e-5, decode_s_per_seq=2e-4, context_s_per_token=1e-7,
    chunk_s_per_squared_token=8e-9, cross_s_per_token_pair=2e-8, source="made up for a test",
)  # fmt: skip


@pytest.mark.parametrize("feature_set", ["A", "B"])
@pytest.mark.parametrize("asynchronous", [True, False])
def test_a_fitted_tier_serves_as_the_observed_one(
    feature_set: str, asynchronous: bool, tmp_path: Path
) -> None:
    server = tier(
        b0_s=0.012, b1_s=6e-5, b2_s=8e-8, b3_s=3e-8,
        kv_blocks=4000, max_num_seqs=32, async_scheduling=int(asynchronous),
    )  # fmt: skip
    if feature_set == "B":
        server = server.model_copy(update={"step_time": OWN_PRICES})
    trace = observe(server, workload(700, 7.0, seed=0), tmp_path / "observed.parquet")
    report = fit_step_time([trace], FitOptions(block_s=5.0))
    assert report.n_train + report.n_test > 3000
    fit = report.model(feature_set)
    # Noise alone is left: E|ratio − 1| = σ·√(2/π).
    assert fit.mape == pytest.approx(NOISE * np.sqrt(2 / np.pi), rel=0.06)
    assert fit.on("mixed").n > 100
    assert report.model(report.recommended).mape < 1.03 * fit.mape
    block = yaml.safe_load(pool_fragment(report, feature_set))
    fitted = parse(Tier, {**server.model_dump(), **block}, where="the fitted tier")
    priced_s = InstanceProfile.of(fitted).coefficients_row
    true_s = InstanceProfile.of(server).coefficients_row
    columns = usable_steps([trace], 5.0).columns("B")
    np.testing.assert_allclose(columns @ priced_s, columns @ true_s, rtol=0.02)
    # Prompts and answers that the trace has not seen, near saturation, where errors add up. A request
    # may fall into another step, so single ones differ; their mean does not.
    fresh = workload(700, 11.0, seed=9)
    served_s, replayed_s = mean_ttft_s(server, fresh), mean_ttft_s(fitted, fresh)
    assert served_s > 5 * server.step_time.b0_s
    assert replayed_s == pytest.approx(served_s, rel=0.03)
