"""What is met, counted: of the predicted claims, and apart from them of the calibrated ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from rbx.config.claims import BoundClaim
from rbx.report.claims.finding import VERDICTS
from rbx.report.claims.study import Judged

Role = Literal["predicted", "calibrated"]
ROLES: tuple[Role, ...] = ("predicted", "calibrated")
NEAR = (0.10, 0.25, 0.50)


class Part(NamedTuple):
    """``k`` of ``n``."""

    k: int
    n: int


@dataclass(frozen=True)
class Tally:
    """Counts over the claims of one role. Those that were not run count in ``verdicts`` alone.

    ``within`` has one entry for each of ``NEAR``: values and ratios off by no more. ``same_way``:
    differences, ratios and signs that point as published, by the estimates; ``clearly`` and ``against``: with
    an interval that says so, or says the opposite. ``neighbours``: of all orders together.
    """

    role: Role
    claims: int
    verdicts: dict[str, int]
    within: tuple[Part, ...]
    covered: Part
    overlapping: Part
    same_way: Part
    clearly: Part
    against: Part
    significance: Part
    orders: Part
    orders_held: Part
    neighbours: Part
    neighbours_clear: Part
    bounds: Part


def tally(judged: Iterable[Judged], role: Role) -> Tally:
    """Count the claims of one role."""
    mine = [each for each in judged if each.claim.role == role]
    found = [each.finding for each in mine]
    errors = [abs(f.relative_error) for f in found if f.relative_error is not None]
    pointed = [f for f in found if f.direction is not None and f.order is None]
    orders = [f for f in found if f.order is not None]
    shown = [f.order for f in orders if f.order is not None]
    n_neighbours = sum(len(order.neighbours) for order in shown)
    bounds = [e.finding for e in mine if isinstance(e.claim, BoundClaim) and e.finding.verdict != "not run"]
    return Tally(
        role=role,
        claims=len(mine),
        verdicts={verdict: sum(f.verdict == verdict for f in found) for verdict in VERDICTS},
        within=tuple(Part(sum(error <= near for error in errors), len(errors)) for near in NEAR),
        covered=_known([f.covers for f in found if f.relative_error is not None]),
        overlapping=_known([f.overlaps for f in found]),
        same_way=Part(sum(bool(f.direction) for f in pointed), len(pointed)),
        clearly=Part(sum(bool(f.direction and f.clear) for f in pointed), len(pointed)),
        against=Part(sum(bool(f.clear and not f.direction) for f in pointed), len(pointed)),
        significance=_known([f.significance for f in found]),
        orders=Part(sum(bool(f.direction) for f in orders), len(orders)),
        orders_held=Part(sum(f.verdict == "holds" for f in orders), len(orders)),
        neighbours=Part(sum(order.in_order for order in shown), n_neighbours),
        neighbours_clear=Part(sum(order.clear for order in shown), n_neighbours),
        bounds=Part(sum(f.verdict == "holds" for f in bounds), len(bounds)),
    )


def tallies(judged: Sequence[Judged]) -> tuple[Tally, ...]:
    """One tally a role, predicted first; a role without claims has none."""
    found = [tally(judged, role) for role in ROLES]
    return tuple(each for each in found if each.claims)


def _known(answers: list[bool | None]) -> Part:
    known = [answer for answer in answers if answer is not None]
    return Part(sum(known), len(known))
