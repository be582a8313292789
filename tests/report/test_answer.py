"""The sentences at the top: what counts as sure, and what is said without RouteBalance or a rival."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from rbx.config.policy import RoutedPolicy
from rbx.report.analysis import Analysis, analyse
from rbx.report.answer import SURE_WORDS, answer, few
from rbx.report.dominance import Trade
from rbx.report.doubt import doubt_words
from rbx.report.duel_tables import baseline_table, tally_table
from rbx.report.headline import headline
from rbx.report.interval import Interval, not_estimable
from rbx.report.load import read_sweep
from rbx.report.paired import PairedPoints, Resampling, pair_up
from rbx.report.plane import PLANES, Plane
from rbx.report.point import Point
from rbx.report.run import write_report
from rbx.report.terminal import print_report
from tests.report.sweeps import POLICIES, SweepShape, write_sweep

QUICK = Resampling(n_resamples=200)


def _interval(low: float, high: float) -> Interval:
    return Interval((low + high) / 2, low, high, "ok")


@pytest.mark.parametrize(
    ("saving", "quality", "sure"),
    [
        (_interval(0.1, 0.3), _interval(0.01, 0.05), True),
        (_interval(0.1, 0.3), _interval(-0.019, 0.05), True),
        (_interval(0.1, 0.3), _interval(-0.021, 0.05), False),  # quality may be worse than the margin
        (_interval(-0.1, 0.3), _interval(0.01, 0.05), False),  # quality alone makes no lead in latency
        (_interval(-0.3, -0.1), _interval(0.01, 0.05), False),
        (_interval(0.1, 0.3), not_estimable(0.01, "not paired"), False),
        (Interval(0.2, 0.2, 0.2, "degenerate"), _interval(0.01, 0.05), False),
    ],
)
def test_sure_needs_a_gain_and_no_loss_of_quality(
    analysis: Analysis, saving: Interval, quality: Interval, sure: bool
) -> None:
    assert Trade(analysis.results[0].point, quality, saving).is_sure is sure


def _sure(paired: PairedPoints, fused: list[Point], rival: Point, plane: Plane) -> bool:
    """Whether some cell no worse by both estimates gains surely, and keeps quality within the margin."""
    for point in fused:
        quality, gain = paired.difference(point, rival, "quality"), plane.saving(paired, point, rival)
        if min(quality.value, gain.value) >= 0 and gain.low > 0 and quality.low >= -0.02:
            return True
    return False


def test_the_tally_counts_what_the_intervals_say(analysis: Analysis) -> None:
    points = [result.point for result in analysis.results]
    (paired,) = pair_up(points, analysis.sweep.labels, analysis.resampling)
    against, tally, standing = answer(analysis)
    counts = []
    for plane, line, row in zip(PLANES, tally.lines, tally_table(analysis).rows, strict=True):
        expected = 0
        for rate in analysis.rates:
            mine = [result.point for result in rate.results]
            fused = [point for point in mine if point.is_fused]
            rivals = [point for point in mine if point.family == "passthrough"]
            expected += sum(_sure(paired, fused, rival, plane) for rival in rivals)
        assert f"of these, {expected} " in line
        assert line.endswith(f"{SURE_WORDS[plane.name]}, and quality not worse by more than 0.02.")
        assert sum(int(value.text.split(", ")[1].split()[0]) for value in row[1:4]) == expected
        counts.append(expected)
    assert max(counts) > 0
    assert against.title == "RouteBalance against passthrough/shortest-queue"
    assert "on the very data it is judged by" in against.note
    assert "on the very data it is judged by" in tally.note
    assert all(0 < len(each.lines) <= 3 for each in (against, tally, standing))


def test_the_baseline_is_answered_rate_by_rate(analysis: Analysis) -> None:
    table = baseline_table(analysis)
    assert [row[0].text for row in table.rows] == ["6", "12", "18"]
    for rate, row in zip(analysis.rates, table.rows, strict=True):
        for duel, value in zip(
            (d for d in rate.duels if d.baseline.label == analysis.baseline_label), row[1:], strict=True
        ):
            assert value.text.startswith("ahead") == duel.won
            assert value.text.endswith("sure") == (duel.verdict == "sure")


def _only(tmp_path: Path, policies: Sequence[Any]) -> Path:
    shape = SweepShape(policies=tuple(policies), rates_per_s=(6.0, 12.0), n_prompts=40, n_requests=60)
    return write_sweep(tmp_path / "s", shape)


@pytest.mark.parametrize(
    "policies",
    [
        POLICIES[5:],
        POLICIES[8:],
        POLICIES[:3],
        (*POLICIES[8:], RoutedPolicy(router="random", dispatch="round-robin")),
    ],
    ids=["no-routebalance", "no-passthrough-either", "routebalance-alone", "several-families"],
)
def test_without_a_comparison_the_leaders_are_named(tmp_path: Path, policies: Sequence[Any]) -> None:
    written = write_report(_only(tmp_path, policies), resampling=QUICK)
    front, best = answer(written.analysis)
    assert front.title == "Policies that no other beats"
    assert best.title.startswith("Best without loss of quality against ")
    labels = [policy.label for policy in policies]
    for plane, line, winner in zip(("latency", "throughput", "cost"), front.lines, best.lines, strict=True):
        assert line.startswith(f"Quality and {plane}: ")
        assert any(label in line for label in labels)
        assert any(label in winner for label in labels)
    page = written.page.read_text(encoding="utf-8")
    assert "Nowhere among" not in page
    assert "against each policy" not in page
    assert 'href="#duels"' not in page
    for rate in written.analysis.rates:
        for frontier in rate.frontiers:
            assert ", ".join(frontier.non_dominated) in page
    console = Console(width=160)
    with console.capture() as capture:
        print_report(console, written.analysis)
    assert "Policies that no other beats" in capture.get()


def test_routebalance_without_passthrough_is_compared_with_the_others(tmp_path: Path) -> None:
    found = analyse(
        read_sweep(_only(tmp_path, (*POLICIES[:3], *POLICIES[8:]))), baseline=None, resampling=QUICK
    )
    against, tally, *_ = answer(found)
    assert against.title == f"RouteBalance against {POLICIES[8].label}"
    assert tally.title == "RouteBalance against all other policies"
    assert all("of 4 other cells" in line for line in tally.lines)


def test_many_names_are_counted() -> None:
    assert few(["a"]) == "a"
    assert few(["a", "b", "a"]) == "a and b"
    assert few(["a", "b", "c"]) == "a, b and c"
    assert few(["a", "b", "c", "d", "e"]) == "a, b, c and 2 more"


def _with_coverage(folder: Path, **coverage: int) -> Path:
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["grid"]["coverage"] = coverage
    path.write_text(json.dumps(manifest))
    return folder


def test_thin_coverage_stands_at_the_top(tmp_path: Path) -> None:
    folder = _with_coverage(
        _only(tmp_path, POLICIES[4:7]),
        split_prompts=58,
        used_prompts=26,
        labels_expected=104,
        labels_present=100,
    )
    written = write_report(folder, resampling=QUICK)
    first, second, *_ = headline(written.analysis).warnings
    assert first.startswith("26 of 58 prompts used: the others lack an answer from some model")
    assert second.startswith("100 of 104 labels present: 4 answers")
    page = written.page.read_text(encoding="utf-8")
    assert page.index(first) < page.index("RouteBalance against")
    console = Console(width=300)
    with console.capture() as capture:
        print_report(console, written.analysis)
    assert f"! {first}" in capture.get()


def test_full_coverage_is_not_warned_of(tmp_path: Path) -> None:
    folder = _with_coverage(
        _only(tmp_path, POLICIES[4:7]),
        split_prompts=40,
        used_prompts=40,
        labels_expected=160,
        labels_present=160,
    )
    found = analyse(read_sweep(folder), baseline=None, resampling=QUICK)
    assert not any("prompts used" in line or "labels present" in line for line in headline(found).warnings)


def _trade(analysis: Analysis, saving: Interval, quality: Interval) -> Trade:
    return Trade(analysis.results[0].point, quality, saving)


@pytest.mark.parametrize(
    ("saving", "quality", "why"),
    [
        (_interval(0.1, 0.3), _interval(-0.01, 0.05), ""),
        (_interval(1.0, 2.7), _interval(-0.034, 0.05), "reaches down to −0.034, below −0.02"),
        (_interval(-0.1, 0.3), _interval(0.01, 0.05), "the interval of the gain is not wholly above zero"),
        (
            _interval(-0.1, 0.3),
            _interval(-0.03, 0.05),
            "wholly above zero and the interval of the difference",
        ),
        (_interval(0.1, 0.3), not_estimable(0.01, "not paired"), "the difference in quality has no interval"),
    ],
)
def test_what_keeps_a_lead_from_being_sure_is_said(
    analysis: Analysis, saving: Interval, quality: Interval, why: str
) -> None:
    said = doubt_words([_trade(analysis, saving, quality)])
    assert why in said
    assert bool(said) == bool(why)


def test_the_block_and_the_table_say_why_a_lead_is_not_sure(analysis: Analysis) -> None:
    against = answer(analysis)[0]
    table = baseline_table(analysis)
    said = 0
    for column, (plane, line) in enumerate(zip(PLANES, against.lines, strict=True), start=1):
        mine = [
            duel
            for rate in analysis.rates
            for duel in rate.duels
            if duel.plane is plane and duel.baseline.label == analysis.baseline_label
        ]
        unsure = [duel for duel in mine if duel.verdict == "estimate"]
        assert (", as the " in line) == bool(unsure)
        for duel, row in zip(mine, table.rows, strict=True):
            assert ("Not sure: the " in row[column].sub) == (duel.verdict == "estimate")
        said += len(unsure)
    assert said
