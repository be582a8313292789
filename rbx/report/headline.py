"""The top of the report in plain words: what was run, what the answer is, and what to beware of."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from rbx.report.analysis import Analysis
from rbx.report.answer import AnswerList, Fought, answer, compared, few
from rbx.report.decision_tables import saturation_warnings
from rbx.report.engine import served_words
from rbx.report.keeping_up import UNTOLD_MARK
from rbx.report.live_tables import live_warnings
from rbx.report.number import percent
from rbx.report.ontime.words import on_time_answer
from rbx.report.point import Point


@dataclass(frozen=True)
class Headline:
    """``run`` says what stands behind the numbers; ``warnings`` hold one sentence an item."""

    run: str
    answer: tuple[AnswerList, ...]
    warnings: tuple[str, ...]


def headline(analysis: Analysis) -> Headline:
    """Compose the sentences at the top of the page."""
    return Headline(
        run=what_was_run(analysis),
        answer=_answers(analysis),
        warnings=tuple(_warnings(analysis)),
    )


def _answers(analysis: Analysis) -> tuple[AnswerList, ...]:
    """Where BEAR is compared, that comes first; who leads on time comes after the answer itself."""
    on_time = on_time_answer(analysis.on_time)
    if analysis.on_time is not None and analysis.on_time.comparison is not None:
        return (*on_time, *answer(analysis))
    return (*answer(analysis), *on_time)


def what_was_run(analysis: Analysis) -> str:
    """Policies, rates, seeds, prompts, pool, engine and labels in one or two sentences."""
    manifest, sweep = analysis.sweep.manifest, analysis.sweep
    policies = len({result.point.label for result in analysis.results})
    rates = ", ".join(f"{rate.rate_per_s:g}" for rate in analysis.rates)
    seeds = sorted({cell.spec.seed for cell in sweep.cells})
    pool = manifest.get("pool") or {}
    grid = manifest.get("grid") or {}
    requests = sum(cell.spec.n_requests for cell in sweep.cells)
    if manifest.get("foreign"):
        labels = "It tells nothing of quality, cost or decisions; requests count as due when they were sent."
    elif manifest.get("synthetic_grid"):
        labels = "Prompts and scores are synthetic: read the shape, not the level."
    else:
        labels = f"Quality is looked up in grid {grid.get('name', '?')} (metric {grid.get('metric', '?')})."
    return (
        f"{_plural(policies, 'policy', 'policies')} at {_plural(len(analysis.rates), 'arrival rate')} "
        f"({rates} requests per second), seed{'s' if len(seeds) > 1 else ''} "
        f"{', '.join(map(str, seeds))}: {_plural(len(sweep.cells), 'cell')}, {requests:,} requests over "
        f"{len(sweep.prompt_ids):,} prompts, on pool {pool.get('name', '?')} "
        f"({_plural(len(pool.get('instances', [])), 'instance')}, "
        f"{_plural(len(pool.get('tiers', [])), 'tier')}). "
        f"{served_words(sweep)} {labels} Baseline: {analysis.baseline_label}, {analysis.baseline.why}."
    )


def _plural(n: int, one: str, many: str = "") -> str:
    return f"{n:,} {one if n == 1 else many or one + 's'}"


def _overload(analysis: Analysis) -> Iterable[str]:
    """How many of the compared points do not keep up: leads over those grow with the length of the run."""
    yield from _untold(analysis)
    rivals, words = compared([(rate, duel) for rate in analysis.rates for duel in rate.duels])
    if not rivals:
        yield from _overload_alone(analysis)
        return
    points = _fighters(rivals)
    others = [point for point in points if not point.is_fused]
    behind = sum(point.is_overloaded for point in others)
    fused = [point for point in points if point.is_fused]
    fused_behind = sum(point.is_overloaded for point in fused)
    if behind or fused_behind:
        yield (
            f"{behind} of {len(others)} {words} cells compared, and {fused_behind} of {len(fused)} "
            "RouteBalance cells, do not keep up with their arrivals: their latencies grow with the length of "
            "the run."
        )


def _overload_alone(analysis: Analysis) -> Iterable[str]:
    """The same where nothing is compared with RouteBalance."""
    behind = sum(result.point.is_overloaded for result in analysis.results)
    if behind:
        yield (
            f"{behind} of {len(analysis.results)} cells (policy × rate) do not keep up with their arrivals: "
            "their latencies grow with the length of the run."
        )


def _untold(analysis: Analysis) -> Iterable[str]:
    """Of how many points nobody can tell whether they keep up: none of them is known to."""
    untold = sum(result.point.keeps_up is None for result in analysis.results)
    if untold:
        yield (
            f"Of {untold} of {len(analysis.results)} cells (policy × rate) it can't be told whether they "
            "keep up with their arrivals, as there are too few of them or the window is too short (marked "
            f"{UNTOLD_MARK}): their latencies may grow with the length of the run."
        )


def _fighters(found: Fought) -> list[Point]:
    """The policies that duels were fought with, and all RouteBalance points of their rates."""
    points = [duel.baseline for _, duel in found]
    points += [result.point for rate, _ in found for result in rate.results if result.point.is_fused]
    return list({id(point): point for point in points}.values())


def _warnings(analysis: Analysis) -> Iterable[str]:
    sweep = analysis.sweep
    yield from _coverage(sweep.manifest)
    yield from _cut_answers(sweep.manifest)
    if known := [result.point.label for result in analysis.results if result.point.is_reference]:
        yield (
            "References know what nobody knows of a live request; they are shown and count in no comparison: "
            f"{few(known)}."
        )
    yield from saturation_warnings(analysis)
    if sweep.invalid:
        named = [f"{cell.spec.label} at λ = {cell.spec.rate_per_s:g}" for cell in sweep.invalid]
        more = f" and {len(named) - 3} more" if len(named) > 3 else ""
        yield (
            f"{_plural(len(sweep.invalid), 'cell')} can't be reported ({', '.join(named[:3])}{more}), so who "
            "is best is told among the others alone; the reasons are listed below."
        )
    if sweep.missing:
        yield f"The sweep is unfinished: {_plural(len(sweep.missing), 'cell')} of the plan were not run."
    failed = sum(cell.summary.scheduled - cell.summary.ok for cell in sweep.cells)
    if failed:
        total = sum(cell.summary.scheduled for cell in sweep.cells)
        yield (
            f"{failed:,} of {total:,} requests did not complete ({percent(failed / total, 2)}). They are "
            "left out of latency means and count against throughput, targets and utility."
        )
    if sweep.unmatched:
        yield (
            f"{sweep.unmatched:,} completed requests have no score, as their answers were cut short of what "
            "the grid scored or the grid has no label, and are left out of quality means."
        )
    yield from live_warnings(sweep)
    yield from _overload(analysis)
    yield from _fallbacks(analysis)
    late = [
        r.point
        for r in analysis.results
        if _under_driven(r.point.rate_per_s, r.point.metrics.achieved_rate_per_s)
    ]
    if late and not analysis.sweep.manifest.get("simulated"):
        yield f"The client sent at less than 95 % of the asked rate in {_plural(len(late), 'point')}."


def _fallbacks(analysis: Analysis) -> Iterable[str]:
    """Where BEAR predicted no instance in time, and where a gateway had to do without its policy."""
    points = [result.point for result in analysis.results]
    fell_back = [point.label for point in points if point.metrics.fallback_share > 0]
    hopeless = [point.label for point in points if point.metrics.hopeless_share > 0]
    if analysis.sweep.manifest.get("simulated"):
        hopeless += fell_back  # simulated policies don't fail: older records say fallback for hopeless
        fell_back = []
    if hopeless:
        names = ", ".join(dict.fromkeys(hopeless))
        yield f"For some requests no instance was predicted in time, and the rule for those decided: {names}."
    if fell_back:
        names = ", ".join(dict.fromkeys(fell_back))
        yield f"Some requests were placed without the policy, as it or its heads failed (fallback): {names}."


def _coverage(manifest: dict[str, Any]) -> Iterable[str]:
    """What the sweep could not use of the split, and which labels the used prompts lack."""
    kept = (manifest.get("grid") or {}).get("coverage") or {}
    split, used = kept.get("split_prompts", 0), kept.get("used_prompts", 0)
    if used < split:
        yield (
            f"{used:,} of {split:,} prompts used: the others lack an answer from some model of the pool. "
            "The figures hold for the prompts that every model answered."
        )
    expected, present = kept.get("labels_expected", 0), kept.get("labels_present", 0)
    if present < expected:
        yield (
            f"{present:,} of {expected:,} labels present: {expected - present:,} answers of the prompts used "
            "have no score, and requests that got one are left out of quality means."
        )


def _cut_answers(manifest: dict[str, Any]) -> Iterable[str]:
    """How answers that were cut short of what the grid scored have come by a score."""
    workload = (manifest.get("config") or {}).get("workload") or {}
    exponent = workload.get("cut_quality_exponent")
    if exponent is not None:
        yield (
            "Answers cut to a share s of their length are taken to be worth their score × s^"
            f"{exponent:g}: an assumption (modelled)."
        )
    if (again := manifest.get("graded_again")) is not None:
        agreeing, labels = again["agreeing"], again["labels"]
        yield (
            "Answers cut short were graded again by what was delivered of their recorded text (rescored): "
            "the label where the final answer stands in it, else zero. The grader gives "
            f"{agreeing:,} of {labels:,} labels of the full texts; cut answers of the others have no score."
        )


def _under_driven(asked_per_s: float, sent_per_s: float) -> bool:
    return bool(sent_per_s < 0.95 * asked_per_s)
