from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from rbx.config.experiment import (
    Arrivals,
    ConstantArrivals,
    GammaArrivals,
    PoissonArrivals,
    SquareArrivals,
    TraceArrivals,
)
from rbx.errors import ConfigError
from rbx.load.arrivals import arrival_times

POISSON = PoissonArrivals()
CONSTANT = ConstantArrivals(kind="constant")


def gamma(burstiness: float) -> GammaArrivals:
    return GammaArrivals(kind="gamma", burstiness=burstiness)


def square(low_over_mean: float, phase_s: float = 30.0) -> SquareArrivals:
    return SquareArrivals(kind="square", low_over_mean=low_over_mean, phase_s=phase_s)


def mooncake(tmp_path: Path, stamps_ms: list[int]) -> TraceArrivals:
    path = tmp_path / "trace.jsonl"
    rows = (
        f'{{"timestamp": {ms}, "input_length": 5, "output_length": 2, "hash_ids": []}}' for ms in stamps_ms
    )
    path.write_text("\n".join(rows))
    return TraceArrivals(kind="trace", path=path, format="mooncake")


def draw(spec: Arrivals, rate: float, n: int, seed: int) -> np.ndarray:
    return arrival_times(spec, rate, n, np.random.default_rng(seed))


@pytest.mark.parametrize("spec", [POISSON, CONSTANT, gamma(0.3), gamma(4.0), square(0.4)], ids=str)
def test_mean_rate_is_the_one_asked_for(spec: Arrivals) -> None:
    n, rate = 200_000, 12.0
    times = draw(spec, rate, n, 7)
    # The largest relative standard error of the mean gap here is that of gamma(0.3): 1.83/√n = 0.4 %.
    assert n / times[-1] == pytest.approx(rate, rel=0.015)


@pytest.mark.parametrize("burstiness", [0.3, 1.0, 4.0])
def test_gamma_gaps_have_the_closed_form_spread(burstiness: float) -> None:
    gaps = np.diff(draw(gamma(burstiness), 18.0, 200_000, 3))
    assert gaps.std() / gaps.mean() == pytest.approx(burstiness**-0.5, rel=0.03)
    fit = stats.kstest(gaps, stats.gamma(burstiness, scale=1 / (18.0 * burstiness)).cdf)
    assert fit.pvalue > 0.001


def test_poisson_gaps_are_exponential_and_counts_are_poisson() -> None:
    times = draw(POISSON, 10.0, 100_000, 0)
    gaps = np.diff(times, prepend=0.0)
    assert stats.kstest(gaps, stats.expon(scale=0.1).cdf).pvalue > 0.001
    counts = np.bincount(times[times < 9_000].astype(int), minlength=9_000)
    assert counts.var() / counts.mean() == pytest.approx(1.0, abs=0.06)


def test_the_last_arrival_is_random_not_pinned() -> None:
    n, rate = 400, 8.0
    last = np.array([draw(POISSON, rate, n, seed)[-1] for seed in range(400)])
    assert last.mean() == pytest.approx(n / rate, rel=0.02)
    assert last.std() == pytest.approx(np.sqrt(n) / rate, rel=0.15)


def test_constant_gaps_are_equal() -> None:
    np.testing.assert_allclose(draw(CONSTANT, 4.0, 5, 0), [0.0, 0.25, 0.5, 0.75, 1.0])


def test_square_wave_counts_follow_the_phases() -> None:
    phase_s, rate = 30.0, 18.0
    times = draw(square(6 / 18, phase_s), rate, 200_000, 5)
    whole_cycles_s = times[-1] // (2 * phase_s) * 2 * phase_s
    phases = (times[times < whole_cycles_s] // phase_s).astype(int)
    per_phase = np.bincount(phases)
    low, high = per_phase[0::2], per_phase[1::2]
    assert len(low) == len(high) > 100
    assert low.mean() / phase_s == pytest.approx(6.0, rel=0.02)
    assert high.mean() / phase_s == pytest.approx(30.0, rel=0.02)
    # Inside a phase the process is Poisson: variance of the counts equals their mean.
    assert high.var() / high.mean() == pytest.approx(1.0, abs=0.35)


def test_square_wave_with_a_silent_phase_has_no_arrival_in_it() -> None:
    times = draw(square(0.0, 10.0), 5.0, 5_000, 1)
    assert len(times) == 5_000
    assert np.all(times % 20.0 >= 10.0 - 1e-9)


def test_square_wave_matches_thinning() -> None:
    """Arrivals of a homogeneous Poisson process kept with probability rate(t)/max have the same law."""
    spec, rate, horizon = square(0.5, 5.0), 4.0, 5_000.0
    rng = np.random.default_rng(11)
    candidates = np.cumsum(rng.exponential(1 / 6.0, 40_000))
    candidates = candidates[candidates < horizon]
    current = np.where(candidates % 10.0 < 5.0, 2.0, 6.0)
    thinned = candidates[rng.random(len(candidates)) < current / 6.0]
    times = draw(spec, rate, 30_000, 12)
    times = times[times < horizon]
    assert stats.ks_2samp(thinned % 10.0, times % 10.0).pvalue > 0.001
    assert stats.ks_2samp(np.diff(thinned), np.diff(times)).pvalue > 0.001


def test_trace_is_stretched_by_one_factor_and_wraps(tmp_path: Path) -> None:
    spec = mooncake(tmp_path, [5_000, 6_000, 6_000, 9_000])
    times = draw(spec, 2.0, 10, 0)
    # Span 4 s over 3 gaps: mean gap 4/3 s, wanted 0.5 s, so the factor is 3/8 and a lap lasts 2 s.
    lap = np.array([0.0, 0.375, 0.375, 1.5])
    np.testing.assert_allclose(times, np.concatenate([lap, lap + 2.0, lap[:2] + 4.0]))


def test_trace_of_one_instant_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no rate"):
        draw(mooncake(tmp_path, [3, 3, 3]), 1.0, 5, 0)


@pytest.mark.shared
@pytest.mark.parametrize(
    ("format", "name", "count"),
    [
        ("azure", "traces/azure2023_conv/AzureLLMInferenceTrace_conv.csv.gz", 19_366),
        ("mooncake", "traces/mooncake_synthetic/synthetic_trace.jsonl.gz", 3_993),
    ],
)
def test_published_traces_keep_their_shape(shared_data: Path, format: str, name: str, count: int) -> None:
    spec = TraceArrivals.model_validate({"kind": "trace", "path": shared_data / name, "format": format})
    times = draw(spec, 10.0, 2 * count, 0)
    assert times[count] == pytest.approx(count / 10.0)
    assert (count - 1) / times[count - 1] == pytest.approx(10.0)
    np.testing.assert_allclose(np.diff(times[:count]), np.diff(times[count:]), atol=1e-9)


specs = st.one_of(
    st.just(POISSON),
    st.just(CONSTANT),
    st.floats(0.05, 20).map(gamma),
    st.builds(square, st.floats(0, 0.99), st.floats(0.01, 100)),
)


@settings(max_examples=200, deadline=None)
@given(spec=specs, rate=st.floats(1e-3, 1e4), n=st.integers(0, 300), seed=st.integers(0, 2**32))
def test_times_never_go_back_and_a_seed_fixes_them(spec: Arrivals, rate: float, n: int, seed: int) -> None:
    times = draw(spec, rate, n, seed)
    assert times.shape == (n,)
    assert times.dtype == np.float64
    assert np.all(np.isfinite(times))
    assert np.all(times >= 0)
    assert np.all(np.diff(times) >= 0)
    np.testing.assert_array_equal(times, draw(spec, rate, n, seed))


def test_seed_zero_is_a_seed() -> None:
    np.testing.assert_array_equal(draw(POISSON, 3.0, 50, 0), draw(POISSON, 3.0, 50, 0))
    assert not np.array_equal(draw(POISSON, 3.0, 50, 0), draw(POISSON, 3.0, 50, 1))


def test_a_longer_workload_starts_like_the_shorter_one() -> None:
    for spec in (POISSON, CONSTANT, square(0.4)):
        np.testing.assert_allclose(draw(spec, 3.0, 500, 9)[:100], draw(spec, 3.0, 100, 9))


@pytest.mark.parametrize("rate", [0.0, -1.0, float("nan"), float("inf")])
def test_impossible_rates_are_refused(rate: float) -> None:
    with pytest.raises(ConfigError, match="rate_per_s"):
        draw(POISSON, rate, 3, 0)


def test_negative_count_is_refused() -> None:
    with pytest.raises(ConfigError, match="negative"):
        draw(POISSON, 1.0, -1, 0)
