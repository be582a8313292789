"""TTFT from a router's shadow beside TTFT from the exact snapshot, and what the shadow costs.

One simulated instance serves random traffic; its shadow is told what a router would see: dispatches,
tokens a millisecond or two late, ends, and gauges every half second. Errors are against the TTFT that
then came, while others keep arriving; both sides use the same predicted lengths, ±50 % off.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy.stats import spearmanr

from benchmarks.bench_bea import FAR, server
from rbx.config.pool import Tier
from rbx.engine.instance_profile import InstanceProfile, StepCoefficients
from rbx.engine.snapshot_export import export_snapshot
from rbx.heads.bea.prediction import Probe
from rbx.heads.bea.ttft import predict_ttft
from rbx.heads.lps import Traffic as MeanTraffic
from rbx.heads.lps import service_rates_per_s, slots_of
from rbx.serve.state.shadow import Shadow, ShadowSettings
from tests.serve.state.router_view import Link, RouterView, Traffic

Floats = NDArray[np.float64]
ARRIVALS, WARM_UP = 1500, 200
LINK = Link(dispatch_s=1e-3, token_s=1e-3, jitter_s=1e-3)
COST_SCENES = ((10, 0), (200, 150))
BURSTS, REPEATS = 50, 20


@dataclass(frozen=True)
class Case:
    """What differs from the plain case: the step times that both predictors believe, and who else sends."""

    name: str
    believed: float = 1.0
    foreign: float = 0.0
    link: Link = LINK
    told_delays: bool = True


CASES = (
    Case("no delay", link=Link()),
    Case("1–2 ms network"),
    Case("1–2 ms network, delays not told", told_delays=False),
    Case("step times −20 %", believed=0.8),
    Case("step times +20 %", believed=1.2),
    Case("30 % foreign traffic", foreign=0.3),
    Case("30 % foreign traffic, no gauges", foreign=0.3, link=replace(LINK, gauges_every_s=1e9)),
)


def believed(profile: InstanceProfile, scale: float) -> InstanceProfile:
    cost = profile.coefficients
    scaled = StepCoefficients(cost.feature_set, cost.fit_id, tuple(scale * value for value in cost.seconds))
    return replace(profile, coefficients=scaled)


def predictions(load: float, case: Case) -> tuple[Floats, Floats, Floats]:
    """TTFT by the shadow, by the exact snapshot, and as it came, in seconds, for our requests."""
    tier = server(max_num_seqs=48)
    profile, mean = InstanceProfile.of(tier), MeanTraffic(500.0, 200.0)
    capacity = float(service_rates_per_s(profile, mean, slots_of(tier.limits, mean))[-1])
    rng = np.random.default_rng(0)
    traffic = Traffic.random(rng, load * capacity, ARRIVALS, case.foreign)
    assumed = believed(profile, case.believed)
    delays = ShadowSettings(case.link.dispatch_s, case.link.token_s) if case.told_delays else ShadowSettings()
    view = RouterView(tier, traffic, case.link, Shadow(assumed, delays), rng)
    told = np.full((2, ARRIVALS), np.nan)
    for k in view.arrivals():
        probe, now_s = Probe(int(traffic.prompt[k])), float(traffic.at_s[k])
        guess = view.shadow.newest(now_s).snapshot
        exact = replace(export_snapshot(view.engine, 0, profile), profile=assumed)
        for row, seen in enumerate((guess, exact)):
            enters_s = now_s + delays.dispatch_delay_s
            told[row, k] = predict_ttft(seen, probe, now_s=enters_s, caps=FAR).seconds
    view.finish()
    ttft_s = view.engine.first_token_s - traffic.at_s - case.link.dispatch_s
    ours = ~traffic.foreign & (np.arange(ARRIVALS) >= WARM_UP)
    return told[0, ours], told[1, ours], ttft_s[ours]


def accuracy_row(load: float, case: Case) -> dict[str, object]:
    shadow_s, exact_s, ttft_s = predictions(load, case)
    off, exact_off = shadow_s / ttft_s - 1.0, exact_s / ttft_s - 1.0
    return {
        "path": f"shadow: TTFT error at {load:g} of capacity, {case.name}",
        "ours": 100.0 * float(np.abs(off).mean()),
        "peer": 100.0 * float(np.abs(exact_off).mean()),
        "peer_name": "exact snapshot",
        "unit": "% of TTFT (mean)",
        "median": 100.0 * float(np.median(np.abs(off))),
        "bias": 100.0 * float(off.mean()),
        "Spearman": float(spearmanr(shadow_s, ttft_s).statistic),
        "exact median": 100.0 * float(np.median(np.abs(exact_off))),
        "exact bias": 100.0 * float(exact_off.mean()),
        "exact Spearman": float(spearmanr(exact_s, ttft_s).statistic),
        "from exact": 100.0 * float(np.abs(shadow_s / exact_s - 1.0).mean()),
        "requests": len(ttft_s),
    }


def loaded(tier: Tier, running: int, waiting: int) -> tuple[Shadow, float]:
    """A shadow with so many requests, each running one at its first token, and the time."""
    shadow, names = Shadow(InstanceProfile.of(tier)), [str(k) for k in range(running + waiting)]
    for name in names[:running]:
        shadow.dispatched(name, 0.0, 500, 4000, 300)
    for name in names[:running]:
        shadow.tokens(name, 1, 1.0)
    for name in names[running:]:
        shadow.dispatched(name, 1.0, 500, 4000, 300)
    return shadow, 1.0


def microseconds(call: Callable[[], object], of: int) -> float:
    begin = time.perf_counter()
    call()
    return (time.perf_counter() - begin) / of * 1e6


def cost_rows(running: int, waiting: int) -> list[dict[str, object]]:
    tier = server(max_num_seqs=max(running, 16))
    shadow, now_s = loaded(tier, running, waiting)
    seen, costs = (
        shadow.snapshot(now_s + 1e-3),
        {name: [0.0] for name in ("token", "snapshot", "gauges", "ends", "given up")},
    )
    assert (seen.running, len(seen.requests) - seen.running) == (running, waiting)

    def burst(total: int, at_s: float) -> None:
        for k in range(running):
            shadow.tokens(str(k), total, at_s)

    def turn_over(at_s: float) -> None:
        for k in range(turns):
            shadow.finished(str(k), at_s)
            shadow.dispatched(f"next {k}", at_s, 500, 4000, 300)

    for total in range(2, BURSTS + 2):
        now_s += 0.02
        costs["token"].append(microseconds(partial(burst, total, now_s), running))
        costs["snapshot"].append(microseconds(partial(shadow.newest, now_s + 1e-3), 1))
    used = 1.0 - shadow.snapshot(now_s).free_blocks / tier.limits.kv_blocks
    for _ in range(REPEATS):
        costs["gauges"].append(microseconds(lambda: shadow.gauges(running, waiting, used, now_s), 1))
    turns = min(running, REPEATS)
    costs["ends"].append(microseconds(lambda: turn_over(now_s), 2 * turns))
    for k in range(turns):
        costs["given up"].append(microseconds(partial(shadow.cancelled, f"next {k}", now_s), 1))
    words = {
        "token": "one token",
        "snapshot": "one snapshot",
        "gauges": "one scrape of gauges",
        "ends": "an end or a dispatch",
        "given up": "a request given up while it waits",
    }
    return [
        {
            "path": f"shadow: {words[name]}, {running} running, {waiting} waiting",
            "ours": float(np.median(values[1:])),
            "unit": "µs",
            "slowest": max(values[1:]),
        }
        for name, values in costs.items()
    ]


def rows() -> list[dict[str, object]]:
    """Microseconds an event and a snapshot, then errors by load and case."""
    cost_rows(10, 0)  # compiles
    table = [row for scene in COST_SCENES for row in cost_rows(*scene)]
    return table + [accuracy_row(load, case) for case in CASES for load in (0.3, 0.6, 0.9)]


if __name__ == "__main__":
    for row in rows():
        print(row)
