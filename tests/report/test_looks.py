"""Colours, markers and dashes: one look a family, distinct, and the same wherever the family is drawn."""

from __future__ import annotations

import random
from typing import get_args

from hypothesis import given
from hypothesis import strategies as st

from rbx.config.routed_policy import PlainRouterName, TrainedRouterName
from rbx.report.looks import HUES, looks_of

_EVERY_ROUTER = (*get_args(PlainRouterName), *get_args(TrainedRouterName))
_ROUTERS = ["avengers-pro", "port", "best-route-frozen", "cascade", "knn", "omni-router"]


def test_six_kinds_of_routers_and_their_rivals_have_ten_colours() -> None:
    families = ["routebalance", "passthrough", "always", "score", *_ROUTERS]
    looks = looks_of(families)
    assert len({look.colour for look in looks.values()}) == len(families) == len(HUES)
    assert len({look.marker for look in looks.values()}) == len(families)


def test_the_best_known_families_have_one_colour_in_every_report() -> None:
    alone = {family: looks_of([family])[family] for family in ("routebalance", "passthrough", "port", "bear")}
    everything = looks_of([*_EVERY_ROUTER, "routebalance", "bear", "score", "external", "plugin mine"])
    assert {family: everything[family] for family in alone} == alone


@given(st.lists(st.sampled_from([*_EVERY_ROUTER, "routebalance", "bear", "plugin a", "plugin b"])))
def test_no_two_families_look_alike_and_order_does_not_matter(families: list[str]) -> None:
    looks = looks_of(families)
    assert set(looks) == set(families)
    assert len(set(looks.values())) == len(looks)
    colours = len({look.colour for look in looks.values()})
    assert colours == min(len(looks), len(HUES))
    again = random.Random(0).sample(families, len(families))
    assert looks_of(again) == looks


def test_families_that_share_a_colour_differ_by_marker_and_dash() -> None:
    looks = list(looks_of([f"plugin {n:02d}" for n in range(25)]).values())
    for k, one in enumerate(looks):
        for other in looks[k + 1 :]:
            if one.colour == other.colour:
                assert one.marker != other.marker
                assert one.dash != other.dash
