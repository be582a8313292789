"""The engine beside a real vLLM run: bounds that a wrong engine misses; the figures are in the tables."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rbx.config.pool import StepTimeB
from tests.validation.errors import Errors, by_band
from tests.validation.operator_tables import OperatorTables
from tests.validation.recorded_run import FOLDER, RecordedRun, read_run
from tests.validation.replay import Served, served
from tests.validation.step_fits import composed, scaled

pytestmark = pytest.mark.shared


@pytest.fixture(scope="module")
def run(shared_data: Path) -> RecordedRun:
    if not (shared_data / FOLDER).is_dir():
        pytest.skip("the recorded run is absent from the shared data folder")
    return read_run(shared_data)


@pytest.fixture(scope="module")
def from_tables(shared_data: Path, run: RecordedRun) -> StepTimeB:
    step_time, off = composed(OperatorTables.read(shared_data))
    assert off < 0.10
    return step_time


@pytest.fixture(scope="module")
def fitted(run: RecordedRun, from_tables: StepTimeB) -> StepTimeB:
    return scaled(run, from_tables, float(run.last_token_s.min()))[0]


def errors(run: RecordedRun, replayed: Served, *, later: bool) -> dict[str, Errors]:
    """Of all requests, or of those with a first token after the block that was fitted to."""
    chosen = run.first_token_s > (run.last_token_s.min() if later else 0.0)
    return {metric: e for band, metric, e in by_band(run, replayed, chosen) if band == "all"}


def good(found: dict[str, Errors]) -> bool:
    """What the fitted engine reaches; the order of TPOT is what a wrong cache or seat count spoils."""
    close = found["TTFT"].mape < 9.0 and found["TPOT"].mape < 12.0 and found["E2E"].mape < 8.5
    return close and found["TTFT"].spearman > 0.995 and found["TPOT"].spearman > 0.45


def test_the_reading_agrees_with_what_the_publisher_says_of_the_run(run: RecordedRun) -> None:
    assert (len(run.arrival_s), run.limits.kv_blocks, run.vllm_version) == (300, 2587, "0.19.0")
    assert run.limits.async_scheduling
    assert run.limits.reserve_full_prompt
    ttft_ms = 1000 * (run.first_token_s - run.queued_s)
    tpot_ms = 1000 * (run.last_token_s - run.first_token_s) / (run.output_tokens - 1)
    e2e_ms = 1000 * (run.last_token_s - run.queued_s)
    for name, times_ms in (("ttft", ttft_ms), ("tpot", tpot_ms), ("latency", e2e_ms)):
        assert run.publisher[f"{name} mean"].recorded_ms == pytest.approx(times_ms.mean(), abs=0.06)
        assert run.publisher[f"{name} median"].recorded_ms == pytest.approx(np.median(times_ms), abs=0.06)
    assert run.generated.sum() == pytest.approx(run.output_tokens.sum(), rel=0.01)
    for earlier, later in (
        (run.arrival_s, run.queued_s),
        (run.queued_s, run.scheduled_s),
        (run.scheduled_s, run.first_token_s),
        (run.first_token_s, run.last_token_s),
    ):
        assert (later >= earlier).all()


def test_composed_step_times_foresee_the_run(run: RecordedRun, from_tables: StepTimeB) -> None:
    found = errors(run, served(run, from_tables), later=False)
    assert found["E2E"].n == 300
    assert found["E2E"].mape < 22.0
    assert found["TTFT"].median < 23.0
    assert found["TTFT"].spearman > 0.99


def test_two_factors_from_the_first_seconds_foresee_the_rest(run: RecordedRun, fitted: StepTimeB) -> None:
    found = errors(run, served(run, fitted), later=True)
    assert found["E2E"].n == 259
    assert good(found), found


def test_the_fit_sees_nothing_of_the_rest(
    run: RecordedRun, from_tables: StepTimeB, fitted: StepTimeB
) -> None:
    """Stamps and ticks after the fitted block are replaced by nonsense: the prices stay."""
    until_s = float(run.last_token_s.min())
    blind = replace(
        run,
        queued_s=run.queued_s + 1e6,
        scheduled_s=run.scheduled_s + 1e6,
        first_token_s=np.where(run.first_token_s < until_s, run.first_token_s, 1e6),
        last_token_s=np.full(len(run.last_token_s), 1e6),
        generated=np.where(run.tick_s < until_s, run.generated, 1e6),
    )
    assert scaled(blind, from_tables, until_s)[0].seconds == fitted.seconds


@pytest.mark.parametrize(
    "change",
    [
        {"kv_blocks": 2846},
        {"kv_blocks": 2328},
        {"max_num_seqs": 32},
        {"reserve_full_prompt": 0, "kv_blocks": 2328},
    ],
    ids=str,
)
def test_an_engine_with_other_limits_misses_the_bounds(
    run: RecordedRun, fitted: StepTimeB, change: dict[str, int]
) -> None:
    assert not good(errors(run, served(run, fitted, **change), later=True))


def test_the_cache_is_reused_after_preemptions(run: RecordedRun, fitted: StepTimeB) -> None:
    """The engine computes a preempted request anew; vLLM's prefix cache spares it half of the error."""
    pytest.importorskip("vllm")
    from tests.validation.replay import served_by_vllm

    ours, plain, cached = (
        errors(run, replayed, later=True)
        for replayed in (
            served(run, fitted),
            served_by_vllm(run, fitted, prefix_caching=False),
            served_by_vllm(run, fitted, prefix_caching=True),
        )
    )
    for metric, found in plain.items():
        assert found.mape == pytest.approx(ours[metric].mape, rel=1e-9)
    assert cached["E2E"].mape < 0.6 * ours["E2E"].mape
    assert cached["TTFT"].mape < 0.6 * ours["TTFT"].mape
