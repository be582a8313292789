"""Step times of each tier, fitted to what its instances did in one half of the time of the live cells."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rbx.config.pool import Pool, Tier
from rbx.heads.step_time.report import ModelFit, StepTimeReport, TraceFile
from rbx.heads.step_time.study import MIN_STEPS, FitOptions, study_steps
from rbx.sweep.compare.cell_run import CellRun
from rbx.sweep.compare.observed_steps import ObservedSteps, as_steps, observe_steps
from rbx.sweep.compare.servers import Tiers, coefficients_b
from rbx.sweep.compare.time_blocks import TimeBlocks

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class TierFit:
    """What the stamps of one tier's answers gave.

    ``report`` is None, and ``refused`` says why, where nothing could be fitted; ``fit`` is the model of the
    report that is used. ``steps`` were told apart, from ``aligned`` of ``answers``, in ``windows``.
    ``measured_s`` is the mean step of all windows, ``believed_s`` what the servers given price it at.
    """

    tier: str
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
        observed: list[tuple[ObservedSteps, Ints]] = []
        for number, cell in enumerate(cells):
            for instance in instances:
                seen = observe_steps(cell, instance, tier)
                observed.append((seen, blocks.of(number, seen.end_s)))
        if any(seen.answers for seen, _ in observed):
            found.append(_fit(believed[instances[0]], observed, blocks, seed))
    return tuple(found)


def _fit(
    believed: Tier, observed: list[tuple[ObservedSteps, Ints]], blocks: TimeBlocks, seed: int
) -> TierFit:
    steps, tier = as_steps(observed), believed.name
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
        steps=sum(seen.steps for seen, _ in observed),
        windows=len(steps),
        answers=sum(seen.answers for seen, _ in observed),
        aligned=sum(seen.aligned for seen, _ in observed),
        report=report,
        refused=refused,
    )


def _mean(seconds: Floats) -> float:
    return float(seconds.mean()) if len(seconds) else float("nan")


def _too_few(windows: int, judged: Ints, fitted: Ints) -> str:
    if windows < MIN_STEPS:
        return f"{windows} windows of steps; at least {MIN_STEPS} are needed: a longer run, or more load"
    if len(np.unique(judged)) < 2 or len(np.unique(fitted)) < 2:
        return "its steps span fewer than two blocks of time on either side; give a shorter --block-s"
    return ""
