"""Step times of each tier, fitted to what its instances did in one half of the time of the live cells."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rbx.config.pool import Pool, Tier
from rbx.heads.step_time.design import Steps
from rbx.heads.step_time.fit import robust_fit
from rbx.heads.step_time.report import ModelFit, StepTimeReport, TraceFile
from rbx.heads.step_time.study import MIN_STEPS, FitOptions, study_steps
from rbx.sweep.compare.cell_run import CellRun
from rbx.sweep.compare.observed_steps import SHORTEST_WINDOW_S, ObservedSteps, as_steps, observe_steps
from rbx.sweep.compare.servers import Tiers, coefficients_b
from rbx.sweep.compare.time_blocks import TimeBlocks

_SHARP = 0.05

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class TierFit:
    """What the stamps of one tier's answers gave.

    ``report`` is None, and ``refused`` says why, where nothing could be fitted; ``fit`` is the model of the
    report that is used. ``steps`` were told apart, from ``aligned`` of ``answers``, and are taken together
    to ``windows`` of ``window_s``.
    ``measured_s`` is the mean step of all windows, ``believed_s`` what the servers given price it at.
    """

    tier: str
    window_s: float
    measured_s: float
    believed_s: float
    steps: int
    windows: int
    answers: int
    aligned: int
    report: StepTimeReport | None
    refused: str

    @property
    def fit(self) -> ModelFit | None:
        """The recommended model, if there is one."""
        return None if self.report is None else self.report.model(self.report.recommended)


def fit_tiers(
    cells: Sequence[CellRun], pool: Pool, believed: Tiers, blocks: TimeBlocks, seed: int
) -> tuple[TierFit, ...]:
    """Fit every tier of the pool that served anything, in the order of the file.

    ``believed`` are the servers that the pool file claims, to compare with.
    """
    found = []
    for position, tier in enumerate(pool.tiers):
        instances = [instance.index for instance in pool.instances if instance.tier_index == position]
        observed = [
            (observe_steps(cell, instance, tier), number)
            for number, cell in enumerate(cells)
            for instance in instances
        ]
        if any(seen.answers for seen, _ in observed):
            found.append(_fit(believed[instances[0]], observed, blocks, seed))
    return tuple(found)


def _fit(believed: Tier, observed: list[tuple[ObservedSteps, int]], blocks: TimeBlocks, seed: int) -> TierFit:
    tier = believed.name
    window_s, steps = _windowed(observed, blocks)
    held_out = blocks.held_out[steps.block]
    refused, report = _too_few(len(steps), steps.block[held_out], steps.block[~held_out]), None
    if not refused:
        digest = hashlib.sha256(np.ascontiguousarray(steps.columns("B")).tobytes())
        digest.update(np.ascontiguousarray(steps.seconds).tobytes())
        source = TraceFile(f"live answers of tier {tier}", digest.hexdigest(), len(steps))
        options = FitOptions(holdout=0.5, block_s=blocks.block_s, seed=seed)
        report = study_steps((source,), steps, held_out, options)
        if report.missing:
            refused, report = "; ".join(report.missing), None
    return TierFit(
        tier=tier,
        measured_s=_mean(steps.seconds),
        believed_s=_mean(steps.columns("B") @ np.array(coefficients_b(believed))),
        window_s=window_s,
        steps=sum(len(seen.end_s) for seen, _ in observed),
        windows=len(steps),
        answers=sum(seen.answers for seen, _ in observed),
        aligned=sum(seen.aligned for seen, _ in observed),
        report=report,
        refused=refused,
    )


def _windowed(observed: list[tuple[ObservedSteps, int]], blocks: TimeBlocks) -> tuple[float, Steps]:
    """The shortest windows that stamps are sharp enough for, and no fewer than a fit needs.

    Sharp enough: half of them lie within ``_SHARP`` of what the simplest model says.
    """
    window_s, steps = SHORTEST_WINDOW_S, _steps(observed, blocks, SHORTEST_WINDOW_S)
    while len(steps) >= MIN_STEPS and _blur(steps) > _SHARP:
        longer = _steps(observed, blocks, 2.0 * window_s)
        if len(longer) < MIN_STEPS:
            break
        window_s, steps = 2.0 * window_s, longer
    return window_s, steps


def _steps(observed: list[tuple[ObservedSteps, int]], blocks: TimeBlocks, window_s: float) -> Steps:
    found = [(seen.windows(window_s), number) for seen, number in observed]
    return as_steps([(windows, blocks.of(number, windows.end_s)) for windows, number in found])


def _blur(steps: Steps) -> float:
    columns = steps.columns("C")
    expected_s = columns @ robust_fit(columns, steps.seconds)
    return float(np.median(np.abs(steps.seconds / expected_s - 1.0)))


def _mean(seconds: Floats) -> float:
    return float(seconds.mean()) if len(seconds) else float("nan")


def _too_few(windows: int, judged: Ints, fitted: Ints) -> str:
    if windows < MIN_STEPS:
        return f"{windows} windows of steps; at least {MIN_STEPS} are needed: a longer run, or more load"
    if len(np.unique(judged)) < 2 or len(np.unique(fitted)) < 2:
        return "its steps span fewer than two blocks of time on either side; give a shorter --block-s"
    return ""
