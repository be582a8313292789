"""Which points of two sweeps are the same policy on the same workload; others are listed or refused."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from rbx.report.comparison.workload import why_different
from rbx.report.load import Cell
from rbx.report.measured.site import Site, SitePoint
from rbx.report.point import Point


@dataclass(frozen=True)
class Couple:
    """One policy at one rate in both sweeps, over the seeds that both have.

    ``other_policy`` says whether the settings under the label differ.
    """

    a: SitePoint
    b: SitePoint
    other_policy: bool


@dataclass(frozen=True)
class Matched:
    """``couples`` in the order of A; ``only_a`` and ``only_b`` name cells that the other sweep lacks.

    ``clashes``: what two sweeps have in common by name and yet not by workload, in words; where there is
    any, nothing may be compared.
    """

    couples: tuple[Couple, ...]
    only_a: tuple[str, ...]
    only_b: tuple[str, ...]
    clashes: tuple[str, ...]


def match(a: Site, b: Site) -> Matched:
    """Match points by label and rate, or by label and load where the rates differ; their cells by seed."""
    couples: list[Couple] = []
    only_a: list[str] = []
    clashes: list[str] = []
    taken: set[int] = set()
    for point in a.points:
        other = _partner(point, b)
        if other is None:
            only_a += _cells_in_words(point.cells)
            continue
        taken.add(id(other))
        found = list(_clashes(point, other, a, b))
        clashes += found
        shared = {cell.spec.seed for cell in point.cells} & {cell.spec.seed for cell in other.cells}
        only_a += _cells_in_words(cell for cell in point.cells if cell.spec.seed not in shared)
        if shared and not found:
            kept_a, kept_b = (SitePoint(site, p.with_seeds(shared)) for site, p in ((a, point), (b, other)))
            couples.append(Couple(kept_a, kept_b, point.policy != other.policy))
    return Matched(tuple(couples), tuple(only_a), tuple(_only_b(b, couples, taken)), tuple(clashes))


def _only_b(b: Site, couples: list[Couple], taken: set[int]) -> Iterator[str]:
    compared = {cell.spec.cell_id for couple in couples for cell in couple.b.point.cells}
    for point in b.points:
        cells = [cell for cell in point.cells if cell.spec.cell_id not in compared]
        if id(point) not in taken or len(cells) < len(point.cells):
            yield from _cells_in_words(cells)


def _partner(point: Point, other: Site) -> Point | None:
    named = [each for each in other.points if each.label == point.label]
    for each in named:
        if math.isclose(each.rate_per_s, point.rate_per_s, rel_tol=1e-9):
            return each
    for each in named:
        if point.load is not None and each.load is not None and math.isclose(each.load, point.load):
            return each
    return None


def _clashes(one: Point, other: Point, a: Site, b: Site) -> Iterator[str]:
    where = f"{one.label} at {one.rate_per_s:g} req/s"
    if not math.isclose(one.rate_per_s, other.rate_per_s, rel_tol=1e-9):
        yield (
            f"{where}: load {one.load:g} is {one.rate_per_s:g} req/s in A and {other.rate_per_s:g} in B: the "
            "capacities differ"
        )
        return
    of_a = {cell.spec.seed: cell for cell in one.cells}
    of_b = {cell.spec.seed: cell for cell in other.cells}
    shared = sorted(of_a.keys() & of_b.keys())
    if not shared:
        seeds = [", ".join(map(str, sorted(of))) for of in (of_a, of_b)]
        yield f"{where}: seeds {seeds[0]} in A, {seeds[1]} in B"
    for seed in shared:
        reason = why_different(of_a[seed], of_b[seed], a.number, b.number)
        if reason:
            hashes = of_a[seed].spec.workload_hash, of_b[seed].spec.workload_hash
            yield f"{where}, seed {seed}: workload {hashes[0]} in A, {hashes[1]} in B: {reason}"


def _cells_in_words(cells: Iterator[Cell] | tuple[Cell, ...] | list[Cell]) -> list[str]:
    return [f"{cell.spec.label} at {cell.spec.rate_per_s:g} req/s, seed {cell.spec.seed}" for cell in cells]
