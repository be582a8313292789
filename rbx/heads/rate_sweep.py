"""What the TPOT heads learn from: one tier, one instance, arrival rates from idle to overload.

Poisson arrivals on the pool's own engine; the state is what telemetry shows just before a request goes
in, as a policy sees it, and the target is what that request then got.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rbx.config.base import digest
from rbx.config.pool import Tier
from rbx.engine.simulator import EngineSim
from rbx.engine.telemetry import TPOT_FEATURES, tpot_features
from rbx.errors import BundleError
from rbx.heads.progress import Progress, silent

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

# Fractions of the instance's measured capacity, and requests at each. Busy states vary more and last
# longer, so they get more requests.
LOADS = (0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 1.0, 1.2)
REQUESTS_LIGHT, REQUESTS_BUSY, BUSY_FROM = 400, 1600, 0.5
LOW_LOAD = 0.1
CAPACITY_REQUESTS = 1500

# Each run is cut into blocks of time; these are held out, and so is every training request that was in
# flight during one of them.
BLOCKS, HELD_OUT = 12, (3, 8)


@dataclass(frozen=True)
class LengthPool:
    """Requests to draw from: lengths of one model on the training prompts, shape (n,).

    ``predicted_tokens`` is what the length head says of each prompt with its own label left out.
    """

    prompt_tokens: Ints
    output_tokens: Ints
    predicted_tokens: Ints


@dataclass(frozen=True)
class TierObservations:
    """Requests of one tier's sweep, shape (n, ...); ``load`` is the rate over the capacity.

    ``features`` (n, F) in the order of ``TPOT_FEATURES``; ``role`` is 0 training, 1 held out,
    2 neither (in flight across a border). ``e2e_s`` runs from submission to the last token.
    """

    tier: str
    capacity_per_s: float
    load: Floats
    features: Floats
    tpot_s: Floats
    e2e_s: Floats
    output_tokens: Ints
    predicted_tokens: Ints
    role: Ints


def sweep_tier(tier: Tier, lengths: LengthPool, seed: int, progress: Progress = silent) -> TierObservations:
    """Observe one instance of ``tier`` at every load; raises ``BundleError`` if no request fits it."""
    fitting = _fit(tier, lengths)
    rng = np.random.default_rng([seed, int(digest(tier.name)[:16], 16)])
    capacity_per_s = measure_capacity(tier, _draw(fitting, CAPACITY_REQUESTS, rng))
    runs = []
    for position, load in enumerate(LOADS):
        n = REQUESTS_BUSY if load >= BUSY_FROM else REQUESTS_LIGHT
        at_s = np.cumsum(rng.exponential(1.0 / (load * capacity_per_s), n))
        runs.append(_observe(tier, capacity_per_s, load, at_s, _draw(fitting, n, rng)))
        progress(f"rate sweep of {tier.name}", position + 1, len(LOADS))
    return TierObservations(
        tier.name,
        capacity_per_s,
        *(np.concatenate([getattr(run, name) for run in runs]) for name in _ARRAYS),
    )


_ARRAYS = ("load", "features", "tpot_s", "e2e_s", "output_tokens", "predicted_tokens", "role")


def measure_capacity(tier: Tier, lengths: LengthPool) -> float:
    """Requests per second of one instance that always has work: the middle of a drained backlog."""
    sim = EngineSim([tier], len(lengths.prompt_tokens))
    slots = _submit_all(sim, np.zeros(len(lengths.prompt_tokens)), lengths, None)
    done_s = np.sort(np.asarray(sim.done_s)[slots])
    low, high = int(0.25 * len(done_s)), int(0.75 * len(done_s))
    return float((high - low) / (done_s[high] - done_s[low]))


def _fit(tier: Tier, lengths: LengthPool) -> LengthPool:
    """Prompts that leave room to answer; answers are cut where the context ends."""
    room = tier.limits.max_model_len - lengths.prompt_tokens
    keep = np.flatnonzero((room >= 2) & (lengths.output_tokens >= 1) & (lengths.prompt_tokens >= 1))
    if len(keep) == 0:
        raise BundleError(
            f"tier {tier.name}: none of {len(lengths.prompt_tokens)} training prompts fits "
            f"max_model_len = {tier.limits.max_model_len}; raise it or use another grid"
        )
    output = np.minimum(lengths.output_tokens[keep], room[keep])
    return LengthPool(lengths.prompt_tokens[keep], output, lengths.predicted_tokens[keep])


def _draw(lengths: LengthPool, n: int, rng: np.random.Generator) -> LengthPool:
    rows = rng.integers(0, len(lengths.prompt_tokens), n)
    return LengthPool(
        lengths.prompt_tokens[rows], lengths.output_tokens[rows], lengths.predicted_tokens[rows]
    )


def _submit_all(sim: EngineSim, at_s: Floats, lengths: LengthPool, features: Floats | None) -> Ints:
    """Submit in order of time, noting the state before each request; returns the slots."""
    slots = np.empty(len(at_s), dtype=np.int64)
    for row, time_s in enumerate(at_s):
        sim.advance(float(time_s))
        if features is not None:
            features[row] = tpot_features(sim.telemetry())[0]
        slots[row] = sim.submit(
            0,
            float(time_s),
            int(lengths.prompt_tokens[row]),
            int(lengths.output_tokens[row]),
            int(lengths.predicted_tokens[row]),
        )
    sim.drain()
    return slots


def _observe(
    tier: Tier, capacity_per_s: float, load: float, at_s: Floats, lengths: LengthPool
) -> TierObservations:
    sim = EngineSim([tier], len(at_s))
    features = np.empty((len(at_s), len(TPOT_FEATURES)))
    slots = _submit_all(sim, at_s, lengths, features)
    first_s, done_s = np.asarray(sim.first_token_s)[slots], np.asarray(sim.done_s)[slots]
    timed = lengths.output_tokens >= 2  # one token has no time between tokens
    return TierObservations(
        tier.name,
        capacity_per_s,
        np.full(int(timed.sum()), load),
        features[timed],
        (done_s - first_s)[timed] / (lengths.output_tokens[timed] - 1),
        (done_s - at_s)[timed],
        lengths.output_tokens[timed],
        lengths.predicted_tokens[timed],
        assign_roles(at_s, done_s)[timed],
    )


def assign_roles(at_s: Floats, done_s: Floats) -> Ints:
    """0 training, 1 submitted in a held-out block of time, 2 in flight during one: used for neither."""
    edges = np.linspace(at_s[0], at_s[-1], BLOCKS + 1)
    role = np.zeros(len(at_s), dtype=np.int64)
    for block in HELD_OUT:
        role[(role == 0) & (at_s < edges[block + 1]) & (done_s >= edges[block])] = 2
    for block in HELD_OUT:
        role[(at_s >= edges[block]) & (at_s < edges[block + 1])] = 1
    return role
