"""Fit every step-time model that a trace allows and measure each on blocks of time it has not seen."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rbx import __version__
from rbx.config.base import digest
from rbx.engine.step_trace import StepTrace
from rbx.errors import DatasetError, UsageError
from rbx.grid.files import sha256_of
from rbx.heads.progress import Progress, silent
from rbx.heads.step_time.accuracy import Accuracy, measure, resampled_mape, simplest_as_good
from rbx.heads.step_time.design import COEFFICIENTS, KINDS, Steps, usable_steps
from rbx.heads.step_time.fit import StallRule, nonnegative_fit, relative_weights
from rbx.heads.step_time.identifiability import coefficient_intervals, collinear_groups, unidentified
from rbx.heads.step_time.report import FEWEST_BLOCKS, Coefficient, ModelFit, Stalls, StepTimeReport, TraceFile

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

MIN_STEPS = 300
GOOD_STEPS = 2_000
MIN_BLOCKS = 4
MIN_BLOCK_S = 1e-3
_MIN_KIND = 30
_STAGE = "fitting step times"
_MUCH_STALLED = 0.01  # of the whole time


@dataclass(frozen=True)
class FitOptions:
    """Share of the blocks held out, their length, and the seed of the choice and of the intervals.

    Raises ``UsageError`` for a share outside (0, 1), a length below a millisecond, a negative seed.
    """

    holdout: float = 0.25
    block_s: float = 10.0
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse values out of range."""
        if not 0.0 < self.holdout < 1.0:
            raise UsageError(f"holdout is {self.holdout:g}; it must lie between 0 and 1, such as 0.25")
        if not MIN_BLOCK_S <= self.block_s < math.inf:
            raise UsageError(
                f"block_s is {self.block_s:g}; it must be a finite number of seconds, {MIN_BLOCK_S:g} or more"
            )
        if self.seed < 0:
            raise UsageError(f"seed is {self.seed}; it must not be negative")


def fit_step_time(
    traces: Sequence[StepTrace], options: FitOptions, progress: Progress = silent
) -> StepTimeReport:
    """Fit models A, B and C (C alone where the traces lack context sums), reporting to ``progress``.

    Raises ``DatasetError`` for too few steps or blocks, or traces of two kinds.
    """
    files = _identified(traces)
    steps = usable_steps(traces, options.block_s)
    held_out = held_out_steps(traces, steps, options)
    return study_steps(files, steps, held_out, options, n_first=len(traces), progress=progress)


def study_steps(
    files: tuple[TraceFile, ...],
    steps: Steps,
    held_out: Mask,
    options: FitOptions,
    *,
    n_first: int = 0,
    progress: Progress = silent,
) -> StepTimeReport:
    """The same for steps that are there already: fitted where ``held_out`` (N,) is false, judged elsewhere.

    ``files`` says where they come from, ``n_first`` how many were left out of them.
    """
    train, test = steps.at(~held_out), steps.at(held_out)
    stages = 1 + len(steps.feature_sets)
    progress(_STAGE, 0, stages)
    rule = StallRule.of(train)
    fitted = []
    for done, name in enumerate(steps.feature_sets, start=1):
        progress(_STAGE, done, stages)
        fitted.append(_fit(name, train, rule, options))
    predicted = [test.columns(fit.feature_set) @ fit.seconds for fit in fitted]
    ape = [np.abs(seconds / test.seconds - 1.0) for seconds in predicted]
    resampled = resampled_mape(ape, test.block, np.random.default_rng([options.seed, 1]))
    progress(_STAGE, stages, stages)
    stalls, stalled = _stalls(steps, rule), rule.stalled(test)
    models = tuple(
        fit.measured(
            _fit_id(fit.feature_set, files, options),
            measure(test, seconds, stalled),
            _interval(means, len(np.unique(test.block))),
        )
        for fit, seconds, means in zip(fitted, predicted, resampled, strict=True)
    )
    chosen = models[simplest_as_good(np.array([errors.mean() for errors in ape]), resampled)]
    return StepTimeReport(
        traces=files,
        holdout=options.holdout,
        block_s=options.block_s,
        seed=options.seed,
        n_first=n_first,
        n_train=len(train),
        n_test=len(test),
        blocks_train=len(np.unique(train.block)),
        blocks_test=len(np.unique(test.block)),
        stalls=stalls,
        models=models,
        recommended=chosen.feature_set,
        missing=_missing(train.at(~rule.stalled(train))),
        notes=_notes(train, test, stalls, models, chosen),
    )


def _interval(means: Floats, blocks: int) -> tuple[float, float] | tuple[None, None]:
    """95 % of the resampled means; none over a handful of blocks, whose spread says nothing of theirs."""
    if blocks < FEWEST_BLOCKS:
        return None, None
    return float(np.percentile(means, 2.5)), float(np.percentile(means, 97.5))


@dataclass(frozen=True)
class _Fitted:
    """Coefficients of one model from the training blocks, with what is known of each."""

    feature_set: str
    seconds: Floats
    interval: Floats
    condition_number: float
    unidentified: tuple[str, ...]

    def measured(
        self, fit_id: str, accuracy: tuple[Accuracy, ...], interval: tuple[float, float] | tuple[None, None]
    ) -> ModelFit:
        """Join the fit with its errors on the held-out blocks."""
        named = zip(COEFFICIENTS[self.feature_set], self.seconds, self.interval, strict=True)
        return ModelFit(
            feature_set=self.feature_set,
            fit_id=fit_id,
            coefficients=tuple(
                Coefficient(name, float(seconds), float(low), float(high))
                for name, seconds, (low, high) in named
            ),
            condition_number=self.condition_number,
            unidentified=self.unidentified,
            accuracy=accuracy,
            mape_low=interval[0],
            mape_high=interval[1],
        )


def _fit(feature_set: str, train: Steps, rule: StallRule, options: FitOptions) -> _Fitted:
    kept = train.at(~rule.stalled(train))
    columns, names = kept.columns(feature_set), COEFFICIENTS[feature_set]
    weights = relative_weights(columns, kept.seconds)
    seconds = nonnegative_fit(columns, kept.seconds, weights)
    rng = np.random.default_rng([options.seed, 2])
    interval = coefficient_intervals(columns, kept.seconds, weights, kept.block, rng)
    condition_number, groups = collinear_groups(columns, weights)
    open_questions = unidentified(names, columns, seconds, interval, groups)
    return _Fitted(feature_set, seconds, interval, condition_number, open_questions)


def _identified(traces: Sequence[StepTrace]) -> tuple[TraceFile, ...]:
    """Name and digest of each trace; the same one twice would stand on both sides of the split."""
    files = tuple(TraceFile(trace.path.name, sha256_of(trace.path), len(trace)) for trace in traces)
    first: dict[str, StepTrace] = {}
    for trace, file in zip(traces, files, strict=True):
        if file.sha256 in first:
            raise DatasetError(f"{trace.path}: the same steps as {first[file.sha256].path}; give each once")
        first[file.sha256] = trace
    return files


def held_out_steps(traces: Sequence[StepTrace], steps: Steps, options: FitOptions) -> Mask:
    """Which steps lie in held-out blocks; at least two blocks on either side."""
    where = ", ".join(str(trace.path) for trace in traces)
    if len(steps) < MIN_STEPS:
        raise DatasetError(
            f"{where}: {len(steps)} steps after the first of each file; at least {MIN_STEPS} are needed, "
            f"{GOOD_STEPS:,} or more over the whole range of loads are good"
        )
    blocks = np.unique(steps.block)
    if len(blocks) < MIN_BLOCKS:
        raise DatasetError(
            f"{where}: the steps span {len(blocks)} blocks of {options.block_s:g} s; at least {MIN_BLOCKS} "
            "are needed: record for longer, or give shorter blocks with --block-s"
        )
    count = int(np.clip(round(options.holdout * len(blocks)), 2, len(blocks) - 2))
    drawn = np.random.default_rng(options.seed).choice(blocks, count, replace=False)
    return np.isin(steps.block, drawn)


def _fit_id(feature_set: str, files: tuple[TraceFile, ...], options: FitOptions) -> str:
    identity = {
        "traces": [file.sha256 for file in files],
        "version": __version__,
        "model": feature_set,
        "options": dataclasses.asdict(options),
    }
    return f"rbx {__version__} train step-time, model {feature_set}, fit {digest(identity)[:16]}"


def _stalls(steps: Steps, rule: StallRule) -> Stalls:
    stalled = rule.stalled(steps)
    excess_s = (steps.seconds - rule.expected_s(steps))[stalled]
    return Stalls(
        n=len(excess_s),
        share=len(excess_s) / len(steps),
        mean_s=float(excess_s.mean()) if len(excess_s) else None,
        time_share=float(excess_s.sum() / steps.seconds.sum()),
    )


def _notes(
    train: Steps, test: Steps, stalls: Stalls, models: tuple[ModelFit, ...], chosen: ModelFit
) -> tuple[str, ...]:
    notes = [_seen(train)]
    if stalls.mean_s is not None and stalls.time_share > _MUCH_STALLED:
        notes.append(
            f"stalls take {stalls.time_share:.1%} of the time, {stalls.share * stalls.mean_s * 1e3:.2g} ms a "
            "step on average, and no model prices them: keep other work off the server and record anew, or "
            "add that to b0_s where means matter more than medians"
        )
    if train.sums is None:
        notes.append(
            "the trace has no context sums: only model C could be fitted, which prices long and short "
            "contexts alike"
        )
    if len(train) < GOOD_STEPS:
        notes.append(f"{len(train)} steps to fit on are few; {GOOD_STEPS:,} or more are good")
    for index, kind in enumerate(KINDS):
        n = int((test.kind == index).sum())
        if n < _MIN_KIND:
            notes.append(f"{n} held-out steps are {kind}: too few to judge any model on them")
    for model in models:
        notes += _better_on(model, chosen)
    return tuple(notes)


def _missing(fitted: Steps) -> tuple[str, ...]:
    """Loads without which a fit is no price: coefficients of theirs would be 0, and their steps free."""
    absent = [
        f"no fitted step has {what}, which would then cost nothing"
        for what, column in (("prompt tokens", fitted.prefill_tokens), ("decodes", fitted.decodes))
        if not column.any()
    ]
    loads = fitted.columns("C")
    if (loads == loads[0]).all():
        absent.append("all fitted steps have the same numbers of prompt tokens and decodes")
    return tuple(absent)


def _seen(train: Steps) -> str:
    """How far the fitted steps reach: loads beyond them are guessed from the formula."""
    most = [f"{train.decodes.max():,.0f} decodes", f"{train.prefill_tokens.max():,.0f} prompt tokens"]
    if train.sums is not None:
        most.append(f"{train.sums[:, 0].max():,.0f} tokens of decode context")
    return f"a fitted step has at most {', '.join(most)}; beyond that prices are extrapolated"


def _better_on(model: ModelFit, chosen: ModelFit) -> list[str]:
    """Kinds on which a model that was not recommended is better by a quarter or more."""
    notes = []
    for kind in KINDS:
        theirs, ours = model.on(kind), chosen.on(kind)
        if theirs.mape is None or ours.mape is None or theirs.n < _MIN_KIND:
            continue
        if theirs.mape < 0.75 * ours.mape:
            notes.append(
                f"model {model.feature_set} is better than {chosen.feature_set} on {kind} steps: MAPE "
                f"{theirs.mape:.1%} against {ours.mape:.1%}"
            )
    return notes
