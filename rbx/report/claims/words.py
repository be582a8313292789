"""The claims page in sentences: what was asked, what came out, what is missing, and the rules."""

from __future__ import annotations

from collections.abc import Iterator

from rbx.report.bootstrap import LEVEL
from rbx.report.claims.study import ClaimsStudy
from rbx.report.claims.tally import Tally, tallies
from rbx.report.definitions import Definition
from rbx.report.number import percent
from rbx.report.paired import Resampling

_SHOWN = 8


def lead(study: ClaimsStudy) -> str:
    """What stands beside what."""
    n, sweeps = len(study.file.claims), len(study.sweeps)
    return (
        f"{n} published {_few(n, 'claim', 'claims')} of {study.file.source}, each beside what our own sweeps "
        f"say ({sweeps} of {len(study.file.sweeps)} could be read)."
    )


def answers(study: ClaimsStudy) -> Iterator[str]:
    """What came out, first for predicted claims; calibrated ones have a sentence of their own."""
    for counted in tallies(study.judged):
        yield from _answer(counted)


def _answer(counted: Tally) -> Iterator[str]:
    verdicts = counted.verdicts
    what = "" if counted.role == "predicted" else " (something of ours was fitted to these very numbers)"
    yield (
        f"Of {counted.claims} {counted.role} {_few(counted.claims, 'claim', 'claims')}{what}: "
        f"{verdicts['holds']} hold, {verdicts['does not hold']} do not, {verdicts['not clear']} not clear, "
        f"{verdicts['not run']} not run."
    )
    if n := counted.within[0].n:
        near = ", ".join(str(part.k) for part in counted.within)
        yield f"Of {n} {counted.role} values and ratios, {near} are within 10, 25 and 50 % of the published."
    if n := counted.same_way.n:
        yield (
            f"Of {n} {counted.role} directions, {counted.same_way.k} are as published by the estimates, "
            f"{counted.clearly.k} of them clearly; {counted.against.k} are clearly the other way."
        )
    if n := counted.neighbours.n:
        yield (
            f"Of {counted.orders.n} {counted.role} orders, {counted.orders.k} are as published by the "
            f"estimates; of their {n} pairs of neighbours, {counted.neighbours.k}."
        )
    if n := counted.significance.n:
        yield f"Of {n} {counted.role} significances, {counted.significance.k} are alike."


def warnings(study: ClaimsStudy) -> Iterator[str]:
    """Sweeps and cells that are not there."""
    yield from study.absent.values()
    gaps = list(dict.fromkeys(gap for each in study.judged for gap in each.gaps))
    gaps = [gap for gap in gaps if gap not in set(study.absent.values())]
    yield from gaps[:_SHOWN]
    if len(gaps) > _SHOWN:
        yield f"… and {len(gaps) - _SHOWN} more; each stands with its claim."


def rules() -> tuple[Definition, ...]:
    """How each kind is judged: holds, does not hold, anything else being not clear."""
    return (
        Definition(
            "value",
            "ours within the stated tolerance of the published figure (10 % unless said otherwise)",
            "further off, and neither our interval reaches the tolerance nor do the two intervals overlap",
        ),
        Definition(
            "ratio",
            "as a value; its direction is that against 1",
            "as a value",
        ),
        Definition(
            "difference",
            "same sign, and our interval excludes zero. Where none was published (not significant): our "
            "interval holds zero",
            "our interval excludes zero on the other side. Where none was published: it excludes zero",
        ),
        Definition("sign", "as published, and our interval excludes zero", "the opposite, likewise"),
        Definition(
            "order",
            "each two neighbours that were published apart are in order, with an interval of their paired "
            "difference that excludes zero, and no two points are clearly the other way round",
            "some two points are clearly the other way round",
        ),
        Definition("bound", "our whole interval is within it", "our whole interval is outside of it"),
        Definition("not run", "a sweep, policy or cell that the claim needs is not there", ""),
    )


def interval_words(resampling: Resampling) -> str:
    """How intervals are made, and what to keep in mind of them."""
    return (
        f"Intervals are {percent(LEVEL)} percentile intervals from {resampling.n_resamples:,} bootstrap "
        f"resamples of prompts (seed {resampling.seed}); each drawn prompt brings all its requests, of every "
        "seed. Points that faced the same requests (equal workload hashes and prompts) share the resamples, "
        "so that differences are paired; points that did not are resampled apart, and that is said. They "
        "cover the choice of prompts, not the chance of arrivals, and are not corrected for the number of "
        "claims. A best point is picked on the data it is judged by, which favours it slightly. Kendall's τ "
        "is between the published order and ours. A figure of the run as a whole and a number of a file have "
        "no interval, so that a direction or bound of theirs is never clear."
    )


def _few(n: int, one: str, many: str) -> str:
    return one if n == 1 else many
