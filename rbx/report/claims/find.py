"""From what a claim says of a point to the point itself, or the reason why it is not there."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import Any

from rbx.config.claimed_point import BestChoice, BestPoint, FilePoint, NamedPoint, PointChoice
from rbx.errors import ConfigError
from rbx.report.measured.metric import Metric, find_metric
from rbx.report.measured.sample import value_of
from rbx.report.measured.site import Site, SitePoint
from rbx.report.point import Point, is_reference
from rbx.sweep.store import CellSpec


@dataclass(frozen=True)
class Absent:
    """A point that a claim needs is not there, and why."""

    reason: str


@dataclass(frozen=True)
class FileFigure:
    """A number of a file."""

    value: float
    words: str


Found = SitePoint | FileFigure | Absent


class Finder:
    """Points of the sweeps that are there; ``absent`` says of the others why they are not."""

    def __init__(self, sites: dict[str, Site], absent: dict[str, str]) -> None:
        """Nothing is looked up yet."""
        self.sites, self.absent = sites, absent

    def find(self, choice: PointChoice, metric: Metric | None, where: str) -> Found:
        """The point; raises ``ConfigError`` naming the claim (``where``) for one that can't be meant."""
        if isinstance(choice, FilePoint):
            return _of_file(choice)
        placed = choice.best if isinstance(choice, BestPoint) else choice
        if placed.sweep in self.absent:
            return Absent(self.absent[placed.sweep])
        site = self.sites[placed.sweep]
        if metric is not None and (lacking := _lacking(site, metric)):
            return Absent(lacking)
        if isinstance(placed, NamedPoint):
            return _named(site, placed, where)
        return _best(site, placed, metric, where)


def _named(site: Site, choice: NamedPoint, where: str) -> Found:
    if choice.rate_per_s is None and choice.load is None:
        rates = sorted({spec.rate_per_s for spec in site.planned})
        if len(rates) > 1:
            shown = ", ".join(f"{rate:g}" for rate in rates)
            raise ConfigError(f"{where}: {site.name} has the rates {shown}: give rate_per_s or load")
    labels = list(dict.fromkeys(spec.label for spec in site.planned))
    if choice.policy not in labels:
        near = get_close_matches(choice.policy, labels, n=3) or labels[:10]
        return Absent(f"{site.name} has no policy {choice.policy!r}; near: {', '.join(near)}")
    specs = [spec for spec in site.planned if spec.label == choice.policy and _is_at(spec, choice)]
    gaps = _gaps(site, specs, choice)
    for point in site.points:
        if point.label == choice.policy and _is_at(point, choice):
            kept = _with_seeds(site, point, choice.seeds, gaps)
            if kept is not None:
                return kept
    return Absent("; ".join(gaps) or f"{site.name}: {choice.policy} is not planned {_at_words(choice)}")


def _best(site: Site, choice: BestChoice, metric: Metric | None, where: str) -> Found:
    by = metric if choice.by is None else find_metric(choice.by, f"{where}: best.by")
    if by is None:
        raise ConfigError(f"{where}: best: give by, the metric to pick by")
    higher = by.higher_is_better if choice.want is None else choice.want == "highest"
    if higher is None:
        raise ConfigError(f"{where}: best: neither end of {by.name} is the better one: give want")
    if lacking := _lacking(site, by):
        return Absent(lacking)
    specs = [spec for spec in site.planned if _matches(spec, choice) and _is_at(spec, choice)]
    gaps = _gaps(site, specs, choice)
    kept = [
        _with_seeds(site, point, choice.seeds, gaps)
        for point in site.points
        if _matches(point, choice) and _is_at(point, choice)
    ]
    valued = [(value_of(point, by), point) for point in kept if point is not None]
    known = [pair for pair in valued if math.isfinite(pair[0])]
    if not known:
        asked = f"{', '.join(choice.policies)} {_at_words(choice)}"
        why = f"no policy matches {asked}" if not specs else f"nothing tells {by.name} of {asked}"
        return Absent("; ".join(gaps) or f"{site.name}: {why}")
    # The first of equals: rates ascend, and policies stand in the order of the manifest.
    pick = max if higher else min
    return pick(known, key=lambda pair: pair[0])[1]


def _with_seeds(
    site: Site, point: Point, seeds: tuple[int, ...] | None, gaps: tuple[str, ...]
) -> SitePoint | None:
    """The point, or some of its seeds alone; None where none of them is there."""
    if seeds is None:
        return SitePoint(site, point, gaps)
    known = {cell.spec.seed for cell in point.cells}
    return SitePoint(site, point.with_seeds(seeds), gaps) if known & set(seeds) else None


def _gaps(site: Site, specs: list[CellSpec], choice: NamedPoint | BestChoice) -> tuple[str, ...]:
    wanted = [spec for spec in specs if choice.seeds is None or spec.seed in choice.seeds]
    lines = [site.gaps[spec.cell_id] for spec in wanted if spec.cell_id in site.gaps]
    unknown = sorted(set(choice.seeds or ()) - {spec.seed for spec in specs}) if specs else []
    return (*lines, *(f"{site.name}: seed {seed} is not planned {_at_words(choice)}" for seed in unknown))


def _of_file(choice: FilePoint) -> Found:
    words = f"{choice.file}: {choice.key}"
    try:
        node: Any = json.loads(choice.file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return Absent(f"{choice.file}: no such file")
    except (OSError, ValueError, RecursionError) as error:
        return Absent(f"{choice.file}: can't be read as JSON: {error}")
    for part in choice.key.split("."):
        if isinstance(node, list) and part.isdecimal() and int(part) < len(node):
            node = node[int(part)]
        elif isinstance(node, dict) and part in node:
            node = node[part]
        else:
            return Absent(f"{choice.file}: no {choice.key} (nothing at {part!r})")
    value = _number(node)
    return Absent(f"{words} is no finite number") if value is None else FileFigure(value, words)


def _number(node: Any) -> float | None:
    """A number of JSON, whose whole numbers may be larger than any float; None where it is no finite one."""
    if isinstance(node, bool) or not isinstance(node, (int, float)):
        return None
    try:
        value = float(node)
    except OverflowError:
        return None
    return value if math.isfinite(value) else None


def _lacking(site: Site, metric: Metric) -> str:
    """Why the pool of a sweep can't have such a metric; empty where it can."""
    pool = site.sweep.manifest["pool"]
    models, tiers = ({tier[key] for tier in pool["tiers"]} for key in ("model", "name"))
    if metric.model is not None and metric.model not in models:
        return f"{site.name}: no model {metric.model!r} in the pool; there are {', '.join(sorted(models))}"
    if metric.tier is not None and metric.tier not in tiers:
        return f"{site.name}: no tier {metric.tier!r} in the pool; there are {', '.join(sorted(tiers))}"
    return ""


def _is_at(place: CellSpec | Point, choice: NamedPoint | BestChoice) -> bool:
    if choice.rate_per_s is not None:
        return math.isclose(place.rate_per_s, choice.rate_per_s, rel_tol=1e-6)
    if choice.load is not None:
        return place.load is not None and math.isclose(place.load, choice.load, rel_tol=1e-6)
    return True


def _matches(place: CellSpec | Point, choice: BestChoice) -> bool:
    """References are meant by their whole label alone: they lead nobody whose pattern takes in all."""
    if place.label in choice.policies:
        return True
    return not is_reference(place.policy) and any(fnmatchcase(place.label, each) for each in choice.policies)


def _at_words(choice: NamedPoint | BestChoice) -> str:
    if choice.rate_per_s is not None:
        return f"at {choice.rate_per_s:g} req/s"
    return f"at load {choice.load:g}" if choice.load is not None else "at any rate"


def gaps_of(found: Iterable[Found]) -> list[str]:
    """Everything that is not there, of several points, each once."""
    lines = []
    for each in found:
        lines += [each.reason] if isinstance(each, Absent) else list(getattr(each, "gaps", ()))
    return list(dict.fromkeys(lines))
