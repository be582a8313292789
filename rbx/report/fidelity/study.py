"""A live sweep beside the simulator: decisions replayed, then policies run again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rbx.config.base import parse
from rbx.config.pool import Pool
from rbx.errors import BundleError, ConfigError, StoreError, UsageError
from rbx.report.fidelity.errors import ErrorRow, Group, error_rows
from rbx.report.fidelity.ordering import OrderRow, order_rows
from rbx.report.fidelity.throughput import ThroughputRow, throughput_rows
from rbx.report.fidelity.tier_mix import MixRow, mix_rows
from rbx.report.fidelity.timing import Timing, timing
from rbx.report.load import Cell, Sweep
from rbx.report.paired import Resampling
from rbx.report.point import to_points
from rbx.report.requests import to_requests
from rbx.sweep.compare.cell_run import CellRun, read_cell_run
from rbx.sweep.compare.fitting import TierFit, fit_tiers
from rbx.sweep.compare.lengths import delivered_lengths
from rbx.sweep.compare.replay import Replayed, replay, time_outside_s
from rbx.sweep.compare.rerun import drawn_again, is_ours, rerun
from rbx.sweep.compare.servers import Tiers, fitted_servers, scaled_servers
from rbx.sweep.compare.time_blocks import TimeBlocks, divide
from rbx.sweep.context import SweepContext
from rbx.sweep.loading import load_context
from rbx.sweep.prompts import PromptTable
from rbx.sweep.store import SweepStore

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

POOL, FITTED = "pool file", "fitted"
ALL, HELD_OUT = "all", "held out"
PLANNED, CALIBRATED = "planned", "calibrated"


@dataclass(frozen=True)
class FidelityOptions:
    """``time_scale`` overrides what the cells tell; ``block_s`` and ``seed`` decide what is held out."""

    time_scale: float | None = None
    block_s: float | None = None
    seed: int = 0
    resampling: Resampling = field(default_factory=lambda: Resampling(n_resamples=2_000))


@dataclass(frozen=True)
class Populations:
    """Requests of the cells, and what became of them in the replay.

    ``replayed`` were run; of those ``as_load`` had failed live and count for no error, nor do ``retried``.
    ``unplaced``: nobody told which instance they reached. ``misfits``: longer than the pool file allows.
    """

    scheduled: int
    replayed: int
    as_load: int
    retried: int
    unplaced: int
    misfits: int


@dataclass(frozen=True)
class Replay:
    """Decisions replayed on one set of servers."""

    source: str
    runs: tuple[Replayed, ...]
    timings: tuple[Timing, ...]


@dataclass(frozen=True)
class Fidelity:
    """Everything that ``rbx validate`` tells; ``sweep.invalid`` was left out.

    ``outside_s`` by tier is the time outside the engine that was added to fitted replays.
    ``no_policies`` says why no policy could be run again. ``lengths_seen`` is the share of simulated
    answers whose length was seen live.
    """

    sweep: Sweep
    pool: Pool
    simulated: bool
    time_scale: float
    runs: tuple[CellRun, ...]
    populations: Populations
    blocks: TimeBlocks
    fits: tuple[TierFit, ...]
    outside_s: dict[str, float]
    replays: tuple[Replay, ...]
    errors: tuple[ErrorRow, ...]
    throughput: tuple[ThroughputRow, ...]
    mixes: tuple[MixRow, ...]
    orders: tuple[OrderRow, ...]
    no_policies: str
    lengths_seen: float


def study(sweep: Sweep, options: FidelityOptions) -> Fidelity:
    """Replay and rerun every valid cell of a live sweep.

    Raises ``StoreError`` for a sweep that is not live or has lost its stamps, ``UsageError`` where the time
    scale of mock servers is not known.
    """
    simulated, time_scale = _time_scale(sweep, options.time_scale)
    content = {key: sweep.manifest["pool"].get(key) for key in ("name", "tiers")}
    pool = parse(Pool, content, where=f"{sweep.folder}/manifest.json: pool")
    store = SweepStore(sweep.folder)
    runs = tuple(read_cell_run(store, cell.spec, pool) for cell in sweep.cells)
    network_s = float(sweep.manifest["config"]["scheduler"]["network_s"])
    blocks = divide(runs, options.seed, options.block_s)
    judged = [blocks.judged(number, run.dispatched_s) for number, run in enumerate(runs)]
    believed = scaled_servers(pool, time_scale)
    fits = fit_tiers(runs, pool, believed, blocks, options.seed)
    found = {each.tier: each.fit for each in fits if each.fit is not None}
    nothing_s = np.zeros(len(pool.instances))
    replays = [_replayed(POOL, runs, believed, network_s, nothing_s)]
    outside_s: dict[str, float] = {}
    servers = believed
    if found:
        servers = fitted_servers(pool, found, time_scale)
        bare = _replayed(FITTED, runs, servers, network_s, nothing_s)
        outside_s = _outside_s(pool, runs, bare, judged, network_s)
        delays_s = np.array([outside_s.get(instance.tier.name, 0.0) for instance in pool.instances])
        replays.append(_replayed(FITTED, runs, servers, network_s, delays_s))
    errors = _errors(pool, runs, replays, judged, options.resampling)
    throughput = [row for each in replays for row in throughput_rows(each.source, runs, each.runs)]
    mixes, orders, reason, seen = _policies(sweep, pool, runs, believed, servers, options.resampling)
    return Fidelity(
        sweep=sweep,
        pool=pool,
        simulated=simulated,
        time_scale=time_scale,
        runs=runs,
        populations=_populations(runs, replays[0]),
        blocks=blocks,
        fits=fits,
        outside_s=outside_s,
        replays=tuple(replays),
        errors=tuple(errors),
        throughput=tuple(throughput),
        mixes=tuple(mixes),
        orders=tuple(orders),
        no_policies=reason,
        lengths_seen=seen,
    )


def _time_scale(sweep: Sweep, asked: float | None) -> tuple[bool, float]:
    """Whether mock servers answered, and how many of their seconds pass in a real one."""
    told = [cell.summary.live for cell in sweep.cells]
    live = [each for each in told if each is not None]
    if len(live) < len(told):
        raise StoreError(f"{sweep.folder}: not a live sweep (engine: live): there is nothing to compare with")
    simulated = any(each.simulated for each in live)
    if asked is not None:
        if not 0.0 < asked < np.inf:
            raise UsageError(f"--time-scale {asked:g}: give a finite number above 0")
        return simulated, asked
    scales = {each.time_scale or 1.0 for each in live if each.time_scale is not None or not each.simulated}
    if len(scales) != 1:
        known = ", ".join(f"{scale:g}" for scale in sorted(scales)) or "none"
        raise UsageError(
            f"{sweep.folder}: mock servers answered, and the cells tell of these time scales: {known}; "
            "give --time-scale"
        )
    return simulated, scales.pop()


def _replayed(
    source: str, runs: Sequence[CellRun], tiers: Tiers, network_s: float, outside_s: Floats
) -> Replay:
    again = tuple(replay(run, tiers, network_s, outside_s) for run in runs)
    return Replay(source, again, tuple(timing(run, each) for run, each in zip(runs, again, strict=True)))


def _outside_s(
    pool: Pool, runs: Sequence[CellRun], bare: Replay, judged: Sequence[Bools], network_s: float
) -> dict[str, float]:
    """Median lateness of first tokens in the fitted half, by tier; no less than the network can give."""
    late: dict[str, list[Floats]] = {}
    for run, again, held_out in zip(runs, bare.runs, judged, strict=True):
        by_instance = time_outside_s(run, again, ~held_out, len(pool.instances))
        for instance, seconds in zip(pool.instances, by_instance, strict=True):
            late.setdefault(instance.tier.name, []).append(seconds)
    joined = {tier: np.concatenate(parts) for tier, parts in late.items()}
    return {
        tier: max(float(np.median(seconds)), -2.0 * network_s)
        for tier, seconds in joined.items()
        if len(seconds)
    }


def _errors(
    pool: Pool,
    runs: Sequence[CellRun],
    replays: Sequence[Replay],
    judged: Sequence[Bools],
    resampling: Resampling,
) -> list[ErrorRow]:
    groups = _groups(pool, runs)
    every = [np.ones(len(run), dtype=np.bool_) for run in runs]
    rows = list(error_rows(POOL, ALL, replays[0].timings, every, groups, resampling))
    if len(replays) > 1:
        for each in replays:
            rows += error_rows(each.source, HELD_OUT, each.timings, judged, groups, resampling)
    return rows


def _groups(pool: Pool, runs: Sequence[CellRun]) -> list[Group]:
    rate = np.concatenate([np.full(len(run), run.spec.rate_per_s) for run in runs])
    tiers = np.array([*(instance.tier.name for instance in pool.instances), ""])
    tier = tiers[np.concatenate([run.instance for run in runs])]
    rates = sorted(set(rate.tolist()))
    names = [each.name for each in pool.tiers]
    every = np.ones(len(rate), dtype=np.bool_)
    return [
        Group(None, None, every),
        *(Group(value, None, rate == value) for value in rates),
        *(Group(None, name, tier == name) for name in names),
        *(Group(value, name, (rate == value) & (tier == name)) for value in rates for name in names),
    ]


def _populations(runs: Sequence[CellRun], first: Replay) -> Populations:
    placed = [run.placed & ~again.misfit for run, again in zip(runs, first.runs, strict=True)]
    return Populations(
        scheduled=sum(len(run) for run in runs),
        replayed=int(sum(mask.sum() for mask in placed)),
        as_load=int(sum((mask & ~run.ok).sum() for run, mask in zip(runs, placed, strict=True))),
        retried=int(
            sum((mask & run.ok & (run.attempts > 1)).sum() for run, mask in zip(runs, placed, strict=True))
        ),
        unplaced=int(sum((~run.placed).sum() for run in runs)),
        misfits=int(sum(again.misfit.sum() for again in first.runs)),
    )


def _policies(
    sweep: Sweep,
    pool: Pool,
    runs: Sequence[CellRun],
    believed: Tiers,
    fitted: Tiers,
    resampling: Resampling,
) -> tuple[list[MixRow], list[OrderRow], str, float]:
    """Every policy of ours twice: as planned before the run, and with what the run has told."""
    cells = [(cell, run) for cell, run in zip(sweep.cells, runs, strict=True) if is_ours(cell.spec)]
    if not cells:
        return [], [], "what decides behind the endpoint is not ours to simulate", float("nan")
    try:
        context = load_context(sweep.folder)
        arriving = [drawn_again(context, cell.spec) for cell, _ in cells]
    except (StoreError, BundleError, ConfigError) as error:
        return [], [], str(error), float("nan")
    told = delivered_lengths(context.prompts, pool, [run for _, run in cells], arriving)
    live = to_points([cell for cell, _ in cells])
    mixes: list[MixRow] = []
    orders: list[OrderRow] = []
    again: list[Cell] = []
    for source, servers, prompts in (
        (PLANNED, believed, context.prompts),
        (CALIBRATED, fitted, told.prompts),
    ):
        again = [_again(context, cell, servers, prompts, sweep.prompt_ids) for cell, _ in cells]
        points = to_points(again)
        mixes += mix_rows(source, live, points)
        orders += order_rows(source, live, points, sweep.labels, resampling)
    model_of = {name: index for index, name in enumerate(pool.models)}
    seen = [
        told.seen[workload.prompt[at], model_of[str(cell.requests.model[at])]]
        for cell, workload in zip(again, arriving, strict=True)
        for at in np.flatnonzero(cell.requests.ok)
    ]
    return mixes, orders, "", float(np.mean(seen)) if seen else float("nan")


def _again(
    context: SweepContext, cell: Cell, servers: Tiers, prompts: PromptTable, prompt_ids: tuple[str, ...]
) -> Cell:
    summary, records = rerun(context, cell.spec, servers, prompts)
    return Cell(cell.spec, summary, to_requests(records, pa.array(prompt_ids, pa.string())))
