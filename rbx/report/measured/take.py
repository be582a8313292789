"""Metrics of a point as ratios over its requests, beside those that the whole report uses."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from rbx.report.measured.site import SitePoint
from rbx.report.ratio import Ratio, completed, joined, mean_of, share_of
from rbx.report.requests import Bools, Floats, Requests

Take = Callable[[SitePoint], Ratio]


def of_runs(ratio: Callable[[Sequence[Requests]], Ratio]) -> Take:
    """A ratio that needs the requests alone."""
    return lambda found: ratio(found.runs)


def over_sent(name: str) -> Take:
    """Mean of a column over sent requests."""
    return lambda found: mean_of(joined(found.runs, name), _sent(found))


def flagged_of_completed(name: str) -> Take:
    """Share of completed requests with a flag."""
    return lambda found: share_of(_flags(found, name), completed(found.runs))


def flagged_of_sent(name: str) -> Take:
    """Share of sent requests with a flag."""
    return lambda found: share_of(_flags(found, name), _sent(found))


def flagged_of_all(name: str) -> Take:
    """Share of scheduled requests with a flag."""
    return lambda found: share_of(_flags(found, name), _every(found))


def word_of_completed(name: str, word: str) -> Take:
    """Share of completed requests whose column ``name`` is ``word``."""
    return lambda found: share_of(joined(found.runs, name) == word, completed(found.runs))


def decision_parts(*parts: str) -> Take:
    """Mean sum of parts of the decision over sent requests; an unknown part counts as none."""

    def take(found: SitePoint) -> Ratio:
        known = [np.nan_to_num(joined(found.runs, part), nan=0.0) for part in parts]
        return mean_of(np.sum(known, axis=0), _sent(found))

    return take


def label_of(model: str) -> Take:
    """Mean label of one model over the requests' prompts, whatever served them."""
    return lambda found: mean_of(found.scores[:, found.site.sweep.labels.models.index(model)], _every(found))


def utility(found: SitePoint) -> Ratio:
    """A failed request is worth zero; a completed one without a score counts in neither."""
    ok, quality = completed(found.runs), joined(found.runs, "quality")
    return mean_of(np.where(ok, quality, 0.0), _every(found))


def coverage(found: SitePoint) -> Ratio:
    """Share of completed requests with a score."""
    return share_of(np.isfinite(joined(found.runs, "quality")), completed(found.runs))


def n_completed(found: SitePoint) -> Ratio:
    """How many requests completed, a mean over seeds: they are repeats of one run."""
    ok = completed(found.runs)
    return Ratio(ok / len(found.runs), np.full(len(ok), 1 / len(ok)))


def completed_of_all(found: SitePoint) -> Ratio:
    """Share of scheduled requests that completed."""
    return share_of(completed(found.runs), _every(found))


def slo_met(found: SitePoint) -> Ratio:
    """Share of scheduled requests that met their target; without a target, of none."""
    return share_of(np.concatenate(_met(found)), _every(found) & _is_known(found, "slo_met"))


def goodput(found: SitePoint) -> Ratio:
    """Met their target, per second of all arrival windows together, at a fixed rate of arrivals."""
    span_s = sum(run.window_s for run in found.runs)
    met = np.concatenate(_met(found)) / (span_s or np.inf)
    known = _every(found) & (_is_known(found, "slo_met") and span_s > 0)
    return Ratio(np.where(known, met, 0.0), known / len(known))


def on_time_share(found: SitePoint) -> Ratio:
    """Share of scheduled requests whose first token came within its target."""
    return share_of(_flags(found, "on_time"), _every(found) & _is_known(found, "ttft_target_s"))


def on_time_utility(found: SitePoint) -> Ratio:
    """OnTimeUtility as the report has it; nothing without TTFT targets."""
    rule = found.site.sweep.on_time
    if rule is None:
        return mean_of(np.full(len(found.prompts), np.nan), _every(found))
    return mean_of(np.concatenate([rule.on_time_utility(run) for run in found.runs]), _every(found))


def residual(found: SitePoint) -> Ratio:
    """From the scheduled send to the dispatch: all of the latency that is not the instance's."""
    waited_s = joined(found.runs, "dispatched_s") - joined(found.runs, "scheduled_s")
    return mean_of(waited_s, _sent(found))


def batch_size(found: SitePoint) -> Ratio:
    """A batch of b requests stands in b rows: each counts for 1/b of a batch."""
    size = joined(found.runs, "batch_size")
    counted = _sent(found) & np.isfinite(size) & (size > 0)
    return Ratio(counted.astype(np.float64), np.where(counted, 1 / np.where(counted, size, 1.0), 0.0))


def decision_of_ttft(found: SitePoint) -> Ratio:
    """Σ decision time ÷ Σ TTFT of requests that got a first token."""
    ttft_s = joined(found.runs, "ttft_s")
    timed = completed(found.runs) & np.isfinite(ttft_s)
    return Ratio(np.where(timed, joined(found.runs, "decision_s"), 0.0), np.where(timed, ttft_s, 0.0))


def preemptions(found: SitePoint) -> Ratio:
    """Preemptions per scheduled request."""
    return mean_of(joined(found.runs, "preemptions"), _every(found))


def oracle(found: SitePoint) -> Ratio:
    """Best label of each request's prompt, among the models that have one."""
    best = np.where(np.isnan(found.scores), -np.inf, found.scores).max(axis=1, initial=-np.inf)
    return mean_of(np.where(np.isfinite(best), best, np.nan), _every(found))


def _flags(found: SitePoint, name: str) -> Bools:
    return np.concatenate([np.asarray(getattr(run, name), dtype=np.bool_) for run in found.runs])


def _sent(found: SitePoint) -> Bools:
    return np.isfinite(joined(found.runs, "sent_s"))


def _every(found: SitePoint) -> Bools:
    return np.ones(len(found.prompts), dtype=np.bool_)


def _is_known(found: SitePoint, name: str) -> bool:
    values: Floats = joined(found.runs, name)
    return bool(np.isfinite(values).any())


def _met(found: SitePoint) -> list[Bools]:
    return [np.asarray((run.slo_met == 1) & run.ok) for run in found.runs]
