from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from scipy import stats

from rbx.config.experiment import (
    Arrivals,
    ConstantArrivals,
    GammaArrivals,
    MmppArrivals,
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


def mmpp(ratio: float, share: float = 0.2, correlation_s: float = 2.0) -> MmppArrivals:
    return MmppArrivals(kind="mmpp", rate_ratio=ratio, high_share=share, correlation_s=correlation_s)


def mooncake(tmp_path: Path, stamps_ms: list[int]) -> TraceArrivals:
    path = tmp_path / "trace.jsonl"
    rows = (
        f'{{"timestamp": {ms}, "input_length": 5, "output_length": 2, "hash_ids": []}}' for ms in stamps_ms
    )
    path.write_text("\n".join(rows))
    return TraceArrivals(kind="trace", path=path, format="mooncake")


def draw(spec: Arrivals, rate: float, n: int, seed: int) -> np.ndarray:
    return arrival_times(spec, rate, n, np.random.default_rng(seed))


@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(1, 300),
    rate=st.floats(0.01, 1e3),
    burstiness=st.sampled_from([None, 0.3, 4.0]),
)
def test_an_exact_span_ends_on_time_and_keeps_the_ratios_of_the_gaps(
    seed: int, n: int, rate: float, burstiness: float | None
) -> None:
    exact: Arrivals
    if burstiness is None:
        drawn, exact = draw(POISSON, rate, n, seed), PoissonArrivals(span="exact")
    else:
        drawn, exact = (
            draw(gamma(burstiness), rate, n, seed),
            GammaArrivals(kind="gamma", burstiness=burstiness, span="exact"),
        )
    stretched = draw(exact, rate, n, seed)
    assert stretched[-1] == pytest.approx(n / rate)
    assert stretched / stretched[-1] == pytest.approx(drawn / drawn[-1])


def test_a_workload_without_requests_has_no_span() -> None:
    assert len(draw(PoissonArrivals(span="exact"), 3.0, 0, 1)) == 0


@pytest.mark.parametrize(
    "spec", [POISSON, CONSTANT, gamma(0.3), gamma(4.0), square(0.4), mmpp(6.0, 0.2, 0.1)], ids=str
)
def test_mean_rate_is_the_one_asked_for(spec: Arrivals) -> None:
    n, rate = 200_000, 12.0
    times = draw(spec, rate, n, 7)
    # The largest relative standard errors here: 1.83/√n for gamma(0.3), √(IDC 3.4 / n) for mmpp, both 0.4 %.
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


@pytest.mark.parametrize(
    ("ratio", "share", "correlation_s"), [(3.0, 0.2, 2.0), (6.0, 0.2, 2.0), (10.0, 0.7, 0.5)]
)
@pytest.mark.parametrize("window_s", [0.5, 2.0, 20.0])
def test_mmpp_counts_have_the_closed_form_dispersion(
    ratio: float, share: float, correlation_s: float, window_s: float
) -> None:
    """Var N(t) / E N(t) = 1 + 2·Var(rate)·τ/λ · (1 - τ/t·(1 - exp(-t/τ))), for each window length t."""
    rate, n = 10.0, 400_000
    times = draw(mmpp(ratio, share, correlation_s), rate, n, 21)
    windows = int(times[-1] // window_s)
    counts = np.bincount((times // window_s).astype(int), minlength=windows)[:windows]
    low = rate / (1 + share * (ratio - 1))
    variance = share * (1 - share) * (low * (ratio - 1)) ** 2
    settled = 1 - correlation_s / window_s * (1 - np.exp(-window_s / correlation_s))
    expected = 1 + 2 * variance * correlation_s / rate * settled
    assert windows >= 1_900
    assert counts.mean() / window_s == pytest.approx(rate, rel=0.03)
    assert counts.var() / counts.mean() == pytest.approx(expected, rel=0.12)


def test_mmpp_stays_in_each_state_for_exponential_times_of_the_right_mean() -> None:
    """At a thousand arrivals per phase the state shows in each gap's density: read it off by windows."""
    share, correlation_s, window_s = 0.2, 2.0, 0.05
    times = draw(mmpp(20.0, share, correlation_s), 2_000.0, 8_000_000, 4)
    counts = np.bincount((times // window_s).astype(int))[:-1]
    low = 2_000.0 / (1 + share * 19)
    high = counts > low * window_s * 10
    assert high.mean() == pytest.approx(share, abs=0.02)
    turns = np.flatnonzero(np.diff(high.astype(int)))
    lasts_s = np.diff(turns) * window_s
    first_is_high = bool(high[turns[0] + 1])
    in_high, in_low = lasts_s[0 if first_is_high else 1 :: 2], lasts_s[1 if first_is_high else 0 :: 2]
    assert len(in_high) > 250
    # Means τ/(1 - f) and τ/f, the spread of an exponential equals its mean; phases below a window go unseen.
    assert in_high.mean() == pytest.approx(correlation_s / 0.8, rel=0.15)
    assert in_low.mean() == pytest.approx(correlation_s / 0.2, rel=0.15)
    assert in_high.std() / in_high.mean() == pytest.approx(1.0, abs=0.15)
    assert in_low.std() / in_low.mean() == pytest.approx(1.0, abs=0.15)
    centred = high - high.mean()
    lag = round(correlation_s / window_s)
    correlation = float((centred[:-lag] * centred[lag:]).mean() / centred.var())
    assert correlation == pytest.approx(np.exp(-1.0), abs=0.08)


def test_mmpp_starts_in_its_stationary_state() -> None:
    """The mean of the first arrivals' count is λ·t from the start, over many seeds."""
    firsts = np.array([(draw(mmpp(50.0, 0.2, 100.0), 10.0, 400, seed) < 1.0).sum() for seed in range(3_000)])
    low = 10.0 / (1 + 0.2 * 49)
    assert (firsts > 20).mean() == pytest.approx(0.2, abs=0.03)
    assert firsts.mean() == pytest.approx(10.0, rel=0.08)
    assert np.median(firsts) == pytest.approx(low, abs=1.0)


def test_mmpp_of_nearly_equal_rates_is_poisson() -> None:
    gaps = np.diff(draw(mmpp(1.0 + 1e-9), 10.0, 100_000, 0), prepend=0.0)
    assert stats.kstest(gaps, stats.expon(scale=0.1).cdf).pvalue > 0.001


def test_mmpp_bursts_stand_at_the_same_moments_at_every_rate() -> None:
    spec = mmpp(200.0, 0.2, 5.0)
    slow, fast = draw(spec, 50.0, 20_000, 3), draw(spec, 100.0, 40_000, 3)
    horizon = int(min(slow[-1], fast[-1]))
    busy = [np.bincount(times.astype(int))[:horizon].astype(float) for times in (slow, fast)]
    assert horizon > 200
    assert np.corrcoef(busy[0], busy[1])[0, 1] > 0.98


@pytest.mark.parametrize(
    "fault",
    [
        {"rate_ratio": 1.0},
        {"rate_ratio": 0.5},
        {"rate_ratio": float("nan")},
        {"rate_ratio": 3.0, "high_share": 0.0},
        {"rate_ratio": 3.0, "high_share": 1.0},
        {"rate_ratio": 3.0, "correlation_s": 0.0},
        {"rate_ratio": 3.0, "correlation_s": float("inf")},
    ],
    ids=str,
)
def test_mmpp_that_is_none_is_refused_with_the_key(fault: dict[str, float]) -> None:
    with pytest.raises(ValidationError, match=list(fault)[-1]):
        MmppArrivals.model_validate({"kind": "mmpp", **fault})


def test_mmpp_that_changes_too_often_is_refused() -> None:
    with pytest.raises(ConfigError, match="correlation_s"):
        draw(mmpp(3.0, correlation_s=1e-9), 1.0, 1_000, 0)


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
    st.builds(mmpp, st.floats(1.01, 1e3), st.floats(0.001, 0.999), st.floats(1.0, 1e3)),
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
    for spec in (POISSON, CONSTANT, square(0.4), mmpp(3.0, correlation_s=0.01)):
        np.testing.assert_allclose(draw(spec, 3.0, 500, 9)[:100], draw(spec, 3.0, 100, 9))


@pytest.mark.parametrize("rate", [0.0, -1.0, float("nan"), float("inf")])
def test_impossible_rates_are_refused(rate: float) -> None:
    with pytest.raises(ConfigError, match="rate_per_s"):
        draw(POISSON, rate, 3, 0)


def test_negative_count_is_refused() -> None:
    with pytest.raises(ConfigError, match="negative"):
        draw(POISSON, 1.0, -1, 0)
