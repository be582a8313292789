"""The rules of the verdicts, on intervals written down by hand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rbx.config.base import parse
from rbx.config.claims import (
    BoundClaim,
    Claim,
    ClaimsFile,
    DifferenceClaim,
    OrderClaim,
    RatioClaim,
    SignClaim,
    ValueClaim,
)
from rbx.errors import ConfigError
from rbx.report.claims import judge
from rbx.report.claims.ranking import rank
from rbx.report.interval import Interval, not_estimable
from rbx.report.measured.sample import Sample

POINT = {"sweep": "s", "policy": "p"}


def claim(**keys: Any) -> Claim:
    points = {"of": POINT}
    if keys["kind"] in ("difference", "sign"):
        points["minus"] = POINT
    if keys["kind"] == "ratio":
        points["over"] = POINT
    if keys["kind"] == "order":
        points = {}
    base = {"id": "c", "where": "here", "says": "so", "metric": "quality", **points, **keys}
    return parse(
        ClaimsFile, {"name": "n", "source": "s", "sweeps": {"s": "f"}, "claims": [base]}, where="f"
    ).claims[0]


def ok(value: float, low: float, high: float) -> Interval:
    return Interval(value, low, high, "ok")


def value_verdict(ours: Interval, **keys: Any) -> str:
    found = claim(kind="value", published=2.0, **keys)
    assert isinstance(found, ValueClaim)
    return judge.judge_value(found, ours).verdict


@pytest.mark.parametrize(
    ("ours", "verdict"),
    [
        (ok(2.1, 2.05, 2.15), "holds"),  # 5 % off, though our interval excludes the published value
        (ok(2.2, 2.1, 2.3), "holds"),  # exactly the tolerance
        (ok(2.5, 2.15, 2.9), "not clear"),  # 25 % off, but the interval reaches 2.2
        (ok(2.5, 2.3, 2.7), "does not hold"),
        (ok(1.5, 1.4, 1.6), "does not hold"),
        (not_estimable(2.1, "no interval"), "holds"),
        (not_estimable(3.0, "no interval"), "does not hold"),
        (not_estimable(math.nan, "nothing"), "not clear"),
    ],
)
def test_a_value_is_close_or_clearly_not(ours: Interval, verdict: str) -> None:
    assert value_verdict(ours) == verdict


def test_a_value_may_have_a_tolerance_of_its_own() -> None:
    assert value_verdict(ok(2.5, 2.45, 2.55), tolerance=0.3) == "holds"
    assert value_verdict(ok(2.1, 2.05, 2.15), tolerance=0.01) == "does not hold"
    assert value_verdict(ok(2.9, 2.8, 3.0), absolute=1.0) == "holds"
    assert value_verdict(ok(2.1, 2.05, 2.15), absolute=0.01) == "does not hold"


def test_overlapping_intervals_keep_a_value_from_being_refuted() -> None:
    assert value_verdict(ok(2.5, 2.3, 2.7), published_interval=[1.6, 2.4]) == "not clear"
    assert value_verdict(ok(2.5, 2.45, 2.7), published_interval=[1.6, 2.4]) == "does not hold"


def test_zero_is_judged_by_distance() -> None:
    found = claim(kind="value", published=0.0, absolute=0.01)
    assert isinstance(found, ValueClaim)
    finding = judge.judge_value(found, ok(0.005, 0.0, 0.01))
    assert (finding.verdict, finding.relative_error) == ("holds", None)
    assert judge.judge_value(found, ok(0.05, 0.04, 0.06)).verdict == "does not hold"


def test_the_relative_error_and_what_the_intervals_share_are_told() -> None:
    found = claim(kind="value", published=2.0, published_interval=[1.9, 2.1])
    assert isinstance(found, ValueClaim)
    finding = judge.judge_value(found, ok(2.5, 2.05, 2.9))
    assert finding.relative_error == pytest.approx(0.25)
    assert (finding.covers, finding.overlaps) == (False, True)


@pytest.mark.parametrize(
    ("keys", "ours", "verdict", "alike"),
    [
        ({"published_interval": [0.005, 0.022]}, ok(0.010, 0.002, 0.018), "holds", True),
        ({"published_interval": [0.005, 0.022]}, ok(0.004, -0.003, 0.011), "not clear", False),
        ({"published_interval": [0.005, 0.022]}, ok(-0.004, -0.010, 0.002), "not clear", False),
        ({"published_interval": [0.005, 0.022]}, ok(-0.010, -0.018, -0.002), "does not hold", False),
        ({"published_interval": [-0.005, 0.022]}, ok(0.004, -0.003, 0.011), "holds", True),
        ({"published_interval": [-0.005, 0.022]}, ok(0.010, 0.002, 0.018), "does not hold", False),
        ({"significant": False}, ok(-0.004, -0.01, 0.002), "holds", True),
        ({"significant": True}, ok(0.010, 0.002, 0.018), "holds", True),
        ({}, ok(0.010, 0.002, 0.018), "holds", None),
        ({}, not_estimable(0.010, "one prompt"), "not clear", None),
        ({"significant": True}, not_estimable(0.010, "one prompt"), "not clear", None),
    ],
)
def test_a_difference_needs_its_sign_and_the_significance_that_was_published(
    keys: dict[str, Any], ours: Interval, verdict: str, alike: bool | None
) -> None:
    found = claim(kind="difference", published=0.013, **keys)
    assert isinstance(found, DifferenceClaim)
    finding = judge.judge_difference(found, ours)
    assert (finding.verdict, finding.significance) == (verdict, alike)
    assert finding.direction is (ours.value > 0)


def test_no_difference_published_holds_where_there_is_none_at_all() -> None:
    found = claim(kind="difference", published=0.0)
    assert isinstance(found, DifferenceClaim)
    same = Interval(0.0, 0.0, 0.0, "degenerate", "every resample gives the same value")
    assert judge.judge_difference(found, same).verdict == "holds"
    assert judge.judge_difference(found, not_estimable(0.0, "one prompt")).verdict == "not clear"


def test_a_ratio_is_close_or_not_and_points_up_or_down() -> None:
    found = claim(kind="ratio", published=0.8)
    assert isinstance(found, RatioClaim)
    near = judge.judge_ratio(found, ok(0.85, 0.8, 0.9))
    assert (near.verdict, near.direction, near.clear) == ("holds", True, True)
    other = judge.judge_ratio(found, ok(1.2, 1.1, 1.3))
    assert (other.verdict, other.direction, other.clear) == ("does not hold", False, True)
    assert judge.judge_ratio(found, ok(1.1, 0.7, 1.5)).verdict == "not clear"


@pytest.mark.parametrize(
    ("sign", "ours", "verdict"),
    [
        (">", ok(1.0, 0.5, 1.5), "holds"),
        ("<", ok(1.0, 0.5, 1.5), "does not hold"),
        (">", ok(1.0, -0.5, 1.5), "not clear"),
        ("<", ok(1.0, -0.5, 1.5), "not clear"),
        ("<", Interval(-1.0, -1.0, -1.0, "degenerate"), "not clear"),
    ],
)
def test_a_sign_holds_where_it_is_clear(sign: str, ours: Interval, verdict: str) -> None:
    found = claim(kind="sign", published=sign)
    assert isinstance(found, SignClaim)
    assert judge.judge_sign(found, ours).verdict == verdict


@pytest.mark.parametrize(
    ("bound", "ours", "verdict"),
    [
        ({"at_least": -0.02}, ok(0.0, -0.01, 0.01), "holds"),
        ({"at_least": -0.02}, ok(0.0, -0.03, 0.03), "not clear"),
        ({"at_least": -0.02}, ok(-0.05, -0.06, -0.03), "does not hold"),
        ({"at_most": 1.0}, ok(0.5, 0.2, 1.0), "holds"),
        ({"at_least": 0.9, "at_most": 1.1}, ok(1.0, 0.95, 1.05), "holds"),
        ({"at_least": 0.9, "at_most": 1.1}, ok(1.0, 0.85, 1.05), "not clear"),
        ({"at_most": 1.0}, Interval(1.0, 1.0, 1.0, "degenerate"), "holds"),
        ({"at_most": 1.0}, not_estimable(0.5, "a file"), "not clear"),
        ({"at_most": 1.0}, not_estimable(math.nan, "nothing"), "not clear"),
    ],
)
def test_a_bound_needs_the_whole_interval(bound: dict[str, float], ours: Interval, verdict: str) -> None:
    found = claim(kind="bound", **bound)
    assert isinstance(found, BoundClaim)
    assert judge.judge_bound(found, ours).verdict == verdict


def _samples(values: list[float], spread: float) -> list[Sample]:
    """Independent normal replicates about each value."""
    rng = np.random.default_rng(3)
    return [Sample(value, value + spread * rng.standard_normal(4000), 50) for value in values]


def _order(values: list[float], spread: float, **keys: Any) -> Any:
    found = claim(kind="order", points=[POINT] * len(values), **keys)
    assert isinstance(found, OrderClaim)
    return judge.judge_order(rank(found, _samples(values, spread), higher=True))


def test_an_order_holds_where_every_neighbour_is_clear() -> None:
    finding = _order([3.0, 2.0, 1.0], 0.1)
    assert finding.verdict == "holds"
    assert finding.order.tau.value == 1.0
    assert (finding.order.in_order, finding.order.clear, finding.direction) == (2, 2, True)


def test_an_order_that_is_right_but_not_clear_is_not_clear() -> None:
    finding = _order([3.0, 2.9, 1.0], 0.3)
    assert (finding.verdict, finding.direction, finding.order.clear) == ("not clear", True, 1)
    assert finding.order.tau.low < 1.0


def test_an_order_with_a_swap_that_may_be_chance_is_not_clear() -> None:
    finding = _order([2.9, 3.0, 1.0], 0.3)
    assert (finding.verdict, finding.direction, finding.order.in_order) == ("not clear", False, 1)
    assert finding.order.tau.value == pytest.approx(1 / 3)


def test_an_order_with_a_clear_swap_of_any_two_does_not_hold() -> None:
    finding = _order([2.0, 2.1, 2.2], 0.05)
    assert finding.verdict == "does not hold"
    assert (0, 2) in finding.order.reversed_pairs


def test_neighbours_that_were_published_together_need_not_be_clear() -> None:
    together = {"published": [3.0, 2.9, 1.0], "published_intervals": [[2.8, 3.2], [2.7, 3.1], [0.9, 1.1]]}
    finding = _order([3.0, 2.9, 1.0], 0.3, **together)
    assert finding.verdict == "holds"
    assert (finding.order.required, finding.order.clear_in_both) == ((False, True), 1)
    assert _order([3.0, 2.9, 1.0], 0.3, published=[3.0, 3.0, 1.0]).verdict == "holds"
    # Nor may they be clearly the other way round.
    assert _order([2.0, 3.0, 1.0], 0.1, **together).verdict == "does not hold"


def test_points_published_as_equal_have_no_order_to_be_turned_round() -> None:
    finding = _order([2.0, 3.0, 1.0], 0.05, published=[3.0, 3.0, 1.0])
    assert (finding.verdict, finding.direction) == ("holds", True)
    assert finding.order.reversed_pairs == ()
    assert (len(finding.order.neighbours), finding.order.in_order) == (1, 1)
    # The one below both may not lie above either.
    assert _order([2.0, 3.0, 2.5], 0.05, published=[3.0, 3.0, 1.0]).order.reversed_pairs == ((0, 2),)


@pytest.mark.parametrize("published", [None, [5.0, 4.0, 4.0, 2.0, 2.0], [9.0, 9.0, 9.0, 9.0, 1.0]])
def test_tau_is_that_of_scipy(published: list[float] | None) -> None:
    from scipy.stats import kendalltau

    values = [5.0, 3.0, 4.0, 1.0, 2.0]
    keys = {} if published is None else {"published": published}
    found = claim(kind="order", points=[POINT] * len(values), **keys)
    assert isinstance(found, OrderClaim)
    samples = _samples(values, 1.0)
    tau = rank(found, samples, higher=True).tau
    theirs = published or [5.0, 4.0, 3.0, 2.0, 1.0]
    assert tau.value == pytest.approx(kendalltau(theirs, values).statistic)
    replicates = np.array([sample.replicates for sample in samples]).T
    each = [kendalltau(theirs, drawn).statistic for drawn in replicates]
    assert [tau.low, tau.high] == pytest.approx(np.quantile(each, [0.025, 0.975]).tolist())


@pytest.mark.parametrize(
    ("keys", "valid"),
    [
        ({"published": [3.0, 2.0, 2.0]}, True),
        ({"published": [1.0, 2.0, 3.0]}, True),
        ({"published": [3.0, 1.0, 2.0]}, False),
        ({"published": [2.0, 2.0, 2.0]}, False),
    ],
)
def test_published_figures_are_in_the_order_that_is_claimed(keys: dict[str, Any], valid: bool) -> None:
    if valid:
        assert claim(kind="order", points=[POINT] * 3, **keys)
        return
    with pytest.raises(ConfigError, match="only rise or only fall"):
        claim(kind="order", points=[POINT] * 3, **keys)


def test_a_figure_near_zero_is_not_told_as_the_published_one() -> None:
    found = claim(kind="value", published=0.0, absolute=0.01)
    assert isinstance(found, ValueClaim)
    assert "close to the published figure (0 ± 0.01)" in judge.judge_value(found, ok(0.005, 0.0, 0.01)).why
    assert judge.judge_value(found, ok(0.0, 0.0, 0.01)).why == "the published figure"


def test_a_difference_without_width_is_neither_significant_nor_not() -> None:
    found = claim(kind="difference", published=0.1, significant=False)
    assert isinstance(found, DifferenceClaim)
    shifted = Interval(0.5, 0.5, 0.5, "degenerate", "every resample gives the same value")
    finding = judge.judge_difference(found, shifted)
    assert (finding.verdict, finding.significance) == ("not clear", None)


@given(
    st.floats(-1, 1, allow_subnormal=False),
    st.floats(0, 1),
    st.floats(0, 1),
    st.sampled_from(["<", ">"]),
)
def test_opposite_signs_never_both_hold(value: float, below: float, above: float, sign: str) -> None:
    """A claim and its contrary: one may hold only where the other does not."""
    ours = ok(value, value - below, value + above)
    found, contrary = (claim(kind="sign", published=each) for each in (sign, "<>".replace(sign, "")))
    assert isinstance(found, SignClaim)
    assert isinstance(contrary, SignClaim)
    verdicts = {judge.judge_sign(each, ours).verdict for each in (found, contrary)}
    assert verdicts in ({"holds", "does not hold"}, {"not clear"})


@given(st.floats(0.01, 100), st.floats(0.01, 100), st.floats(0.01, 3), st.floats(0.01, 3))
def test_a_value_closer_to_the_published_one_is_judged_no_worse(
    value: float, published: float, spread: float, step: float
) -> None:
    """Moving ours towards the published figure never makes the verdict worse."""
    found = claim(kind="value", published=published)
    assert isinstance(found, ValueClaim)
    rank_of = {"does not hold": 0, "not clear": 1, "holds": 2}
    closer = value + (published - value) * min(step, 1.0)
    far, near = (
        rank_of[judge.judge_value(found, ok(x, x - spread, x + spread)).verdict] for x in (value, closer)
    )
    assert near >= far
