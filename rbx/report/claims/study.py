"""Look at every claim of a file: find its points, resample them together, judge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rbx.config.claims import (
    BoundClaim,
    Claim,
    ClaimsFile,
    DifferenceClaim,
    OrderClaim,
    RatioClaim,
    SignClaim,
    ValueClaim,
    points_of,
)
from rbx.errors import ConfigError, StoreError
from rbx.report.claims import judge
from rbx.report.claims.find import Absent, FileFigure, Finder, Found, gaps_of
from rbx.report.claims.finding import Finding
from rbx.report.claims.ranking import rank
from rbx.report.engine import kinds
from rbx.report.interval import Interval
from rbx.report.load import Sweep, read_sweep
from rbx.report.measured.estimate import difference, ratio, single
from rbx.report.measured.metric import Metric, find_metric
from rbx.report.measured.sample import Asked, Sample, Samples, draw, streams
from rbx.report.measured.site import SitePoint, sites
from rbx.report.paired import Resampling

FILE_FIGURE = "a number of a file"


@dataclass(frozen=True)
class Judged:
    """A claim and what it came to.

    ``points`` say what was looked at, in the order of the claim; ``unpaired`` why differences are not taken
    within the same resamples, where they are not. ``gaps`` are cells that should be there and are not;
    ``kinds`` what served the requests.
    """

    claim: Claim
    metric: Metric | None
    finding: Finding
    points: tuple[Found, ...]
    unpaired: str
    gaps: tuple[str, ...]
    kinds: tuple[str, ...]

    @property
    def artefact(self) -> str:
        """The table or figure that it stands under."""
        return self.claim.where.partition(",")[0].strip()

    @property
    def measured(self) -> list[SitePoint]:
        """The points of sweeps."""
        return [point for point in self.points if isinstance(point, SitePoint)]


@dataclass(frozen=True)
class ClaimsStudy:
    """All claims of a file. ``absent`` says of each sweep that could not be read why."""

    file: ClaimsFile
    path: Path
    sweeps: dict[str, Sweep]
    absent: dict[str, str]
    judged: tuple[Judged, ...]
    resampling: Resampling

    @property
    def is_complete(self) -> bool:
        """Whether every cell that a claim speaks of is there."""
        return not any(each.gaps for each in self.judged)

    @property
    def kinds(self) -> tuple[str, ...]:
        """What served the requests of all that was looked at."""
        return tuple(dict.fromkeys(kind for each in self.judged for kind in each.kinds))


def study_claims(file: ClaimsFile, path: Path, resampling: Resampling) -> ClaimsStudy:
    """Judge every claim.

    A sweep, cell or policy that is not there makes its claims *not run*. Raises ``ConfigError`` for a claim
    that can't be meant: an unknown metric, a rate left open, a best with no better end.
    """
    metrics = [_metric(claim, path) for claim in file.claims]
    sweeps, absent = _opened(file)
    finder = Finder(sites(sweeps), absent)
    found = [
        tuple(finder.find(choice, metric, f"{path}: {claim.id}") for choice in points_of(claim))
        for claim, metric in zip(file.claims, metrics, strict=True)
    ]
    asked = [
        each
        for points, metric in zip(found, metrics, strict=True)
        if metric is not None and not _not_there(points)
        for each in _asked(points, metric)
    ]
    samples = draw(asked, resampling)
    every_kind = tuple(dict.fromkeys(kind for sweep in sweeps.values() for kind in kinds(sweep)))
    judged = tuple(
        _judged(claim, metric, points, samples, every_kind)
        for claim, metric, points in zip(file.claims, metrics, found, strict=True)
    )
    return ClaimsStudy(file, path, sweeps, absent, judged, resampling)


def _metric(claim: Claim, path: Path) -> Metric | None:
    where = f"{path}: {claim.id}"
    metric = None if claim.metric is None else find_metric(claim.metric, where)
    if isinstance(claim, OrderClaim):
        _check_order(claim, metric, where)
    return metric


def _check_order(claim: OrderClaim, metric: Metric | None, where: str) -> None:
    higher = is_higher_better(claim, metric)
    if higher is None:
        raise ConfigError(f"{where}: give higher: true or false, the end that is best")
    if claim.published is not None and (claim.published[0] > claim.published[-1]) != higher:
        best = "highest" if higher else "lowest"
        raise ConfigError(
            f"{where}: published: the best comes first, and the {best} is the best; or give higher"
        )


def _opened(file: ClaimsFile) -> tuple[dict[str, Sweep], dict[str, str]]:
    sweeps: dict[str, Sweep] = {}
    absent: dict[str, str] = {}
    by_folder: dict[Path, Sweep] = {}
    for name, folder in file.sweeps.items():
        try:
            if folder not in by_folder:
                by_folder[folder] = read_sweep(folder)
            sweeps[name] = by_folder[folder]
        except StoreError as error:
            told = " ".join(str(error).split())
            absent[name] = f"{name}: {told if folder.exists() else f'{folder} is not there'}"
    return sweeps, absent


def _not_there(points: Sequence[Found]) -> bool:
    return any(isinstance(point, Absent) for point in points)


def _asked(points: Sequence[Found], metric: Metric) -> list[Asked]:
    measured = [point for point in points if isinstance(point, SitePoint)]
    return [Asked(point, metric, stream) for point, stream in zip(measured, streams(measured), strict=True)]


def _judged(
    claim: Claim,
    metric: Metric | None,
    points: tuple[Found, ...],
    samples: Samples,
    every_kind: tuple[str, ...],
) -> Judged:
    gaps = tuple(gaps_of(points))
    measured = [point for point in points if isinstance(point, SitePoint)]
    touched = tuple(dict.fromkeys(kind for point in measured for kind in kinds(point.site.sweep)))
    if any(isinstance(point, FileFigure) for point in points):
        touched = every_kind  # what a file's number was measured on is not known
    if _not_there(points):
        return Judged(claim, metric, Finding("not run", "; ".join(gaps)), points, "", gaps, touched)
    drawn = iter([] if metric is None else [samples[each.key] for each in _asked(points, metric)])
    taken = [_of_file(point) if isinstance(point, FileFigure) else next(drawn) for point in points]
    finding = _finding(claim, metric, taken)
    apart = len(set(streams(measured))) > 1
    unpaired = "the points did not face the same requests, so each is resampled by itself" if apart else ""
    return Judged(claim, metric, finding, points, unpaired, gaps, touched)


def _of_file(point: Found) -> Sample:
    assert isinstance(point, FileFigure)
    return Sample(point.value, None, reason=FILE_FIGURE)


def _finding(claim: Claim, metric: Metric | None, taken: list[Sample]) -> Finding:
    if isinstance(claim, ValueClaim):
        return judge.judge_value(claim, single(taken[0]))
    if isinstance(claim, DifferenceClaim):
        return judge.judge_difference(claim, difference(taken[0], taken[1]))
    if isinstance(claim, RatioClaim):
        return judge.judge_ratio(claim, ratio(taken[0], taken[1]))
    if isinstance(claim, SignClaim):
        return judge.judge_sign(claim, difference(taken[0], taken[1]))
    if isinstance(claim, BoundClaim):
        return judge.judge_bound(claim, _bounded(claim, taken))
    return judge.judge_order(rank(claim, taken, higher=bool(is_higher_better(claim, metric))))


def _bounded(claim: BoundClaim, taken: list[Sample]) -> Interval:
    if claim.minus is not None:
        return difference(taken[0], taken[1])
    return single(taken[0]) if claim.over is None else ratio(taken[0], taken[1])


def is_higher_better(claim: OrderClaim, metric: Metric | None) -> bool | None:
    """Which end of an order is its best; None where neither claim nor metric says."""
    if claim.higher is not None or metric is None:
        return claim.higher
    return metric.higher_is_better
