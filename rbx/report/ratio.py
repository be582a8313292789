"""Metrics as ratios over requests, Σ top ÷ Σ bottom: the form in which resamples of prompts take them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from rbx.report.requests import Bools, Floats, Ints, Requests


class Ratio(NamedTuple):
    """``top`` and ``bottom`` of each request, seeds one after the other; both of shape (N,) and finite."""

    top: Floats
    bottom: Floats

    def per_prompt(self, at: Ints, n_prompts: int) -> tuple[Floats, Floats]:
        """Sums of both over the requests of each prompt, (P,) each; ``at`` (N,) says which prompt."""
        top, bottom = (np.bincount(at, weights=part, minlength=n_prompts) for part in self)
        return top.astype(np.float64), bottom.astype(np.float64)


def mean_of(values: Floats, counted: Bools) -> Ratio:
    """The mean of the values that are counted and known."""
    known = counted & np.isfinite(values)
    return Ratio(np.where(known, values, 0.0), known.astype(np.float64))


def share_of(part: Bools, whole: Bools) -> Ratio:
    """How much of ``whole`` is in ``part`` too."""
    return Ratio((part & whole).astype(np.float64), whole.astype(np.float64))


def joined(runs: Sequence[Requests], name: str) -> Floats:
    """One column of all runs, one after the other, (N,)."""
    return np.concatenate([getattr(run, name) for run in runs])


def completed(runs: Sequence[Requests]) -> Bools:
    """Which requests completed, (N,)."""
    return np.concatenate([run.ok for run in runs])


def mean_over_completed(name: str) -> Callable[[Sequence[Requests]], Ratio]:
    """The mean of a column over completed requests."""
    return lambda runs: mean_of(joined(runs, name), completed(runs))


def cost_per_request(runs: Sequence[Requests]) -> Ratio:
    """Money spent on failed requests is spent too: all costs, per completed request."""
    cost_usd = joined(runs, "cost_usd")
    priced = np.isfinite(cost_usd)
    return Ratio(np.where(priced, cost_usd, 0.0), (completed(runs) & priced).astype(np.float64))


def throughput(runs: Sequence[Requests]) -> Ratio:
    """Completed before the last arrival per second of the arrival window, and each request's part of that.

    A ratio at a fixed rate of arrivals. Runs without a window count in neither, and all others have the same
    weight.
    """
    timed = [run for run in runs if run.window_s > 0]
    each_s = [len(timed) * run.window_s if run.window_s > 0 else np.inf for run in runs]
    done = np.concatenate([run.ok_in_window / span_s for run, span_s in zip(runs, each_s, strict=True)])
    known = np.repeat([run.window_s > 0 for run in runs], [len(run.prompt) for run in runs])
    return Ratio(np.where(known, done, 0.0), known / max(known.sum(), 1))


MEAN_RATIOS: dict[str, Callable[[Sequence[Requests]], Ratio]] = {
    "quality": mean_over_completed("quality"),
    "e2e_s": mean_over_completed("e2e_s"),
    "ttft_s": mean_over_completed("ttft_s"),
    "cost_usd": cost_per_request,
    "throughput_per_s": throughput,
}
