"""The first table of the page, and which policy the differences are taken against."""

from __future__ import annotations

from pathlib import Path

import pytest

from rbx.config.policy import RoutedPolicy
from rbx.report.analysis import Analysis, analyse
from rbx.report.headline import headline
from rbx.report.load import read_sweep
from rbx.report.ontime.leaders import leaders_table
from rbx.report.overview_table import overview_table
from rbx.report.page_tables import page_tables
from rbx.report.paired import Resampling
from rbx.report.run import write_report
from rbx.report.table import Column, Table, Value
from rbx.report.telling_columns import telling
from tests.report.sweeps import POLICIES, Policy, SweepShape, write_sweep

QUICK = Resampling(n_resamples=200)
ORACLE = RoutedPolicy.model_validate({"router": "oracle", "dispatch": "shortest-queue"})


def _found(folder: Path, *policies: Policy, ttft_target: bool = False) -> Analysis:
    shape = SweepShape(
        policies=policies, rates_per_s=(3.0, 6.0), n_prompts=20, n_requests=20, ttft_target=ttft_target
    )
    return analyse(read_sweep(write_sweep(folder / "s", shape)), baseline=None, resampling=QUICK)


def _passthrough(dispatch: str) -> RoutedPolicy:
    return RoutedPolicy.model_validate({"router": "passthrough", "dispatch": dispatch})


def test_all_policies_stand_by_quality_with_references_apart(tmp_path: Path) -> None:
    analysis = _found(tmp_path, ORACLE, *POLICIES[:8])
    for rate in analysis.rates:
        table = overview_table(rate)
        labels = [row[0].text for row in table.rows]
        assert sorted(labels) == sorted(result.point.label for result in rate.results)
        assert labels[-1] == ORACLE.label
        assert table.rows[-1][0].sub == "reference"
        quality = [row[1].sort for row in table.rows[:-1]]
        assert quality == sorted(quality, key=lambda q: -(q or 0))
        by_label = {result.point.label: result for result in rate.results}
        for name, scored, e2e, p99, cost, throughput, kept_up in table.rows:
            result = by_label[name.text]
            assert scored.sort == result.means["quality"].value
            assert (e2e.sort, p99.sort) == (result.means["e2e_s"].value, result.tails["e2e_s", 0.99].value)
            assert cost.sort == result.means["cost_usd"].value
            assert throughput.sort == result.means["throughput_per_s"].value
            assert kept_up.text + kept_up.flag == "can't be told?"


def test_the_page_begins_with_it(sweep_folder: Path) -> None:
    report = write_report(sweep_folder, resampling=QUICK)
    page = report.page.read_text(encoding="utf-8")
    assert page.count("<h3>All policies</h3>") == len(report.analysis.rates)
    first = page.index('<details class="overview" open>')
    assert page.index('<p class="lead">') < first < page.index('<div class="verdicts">')
    assert f"λ = {report.analysis.middle.rate_per_s:g} req/s" in page[first : first + 200]
    assert (report.page.parent / "tables" / "rate-1-all-policies.csv").exists()


def test_without_bear_nothing_is_said_of_it(tmp_path: Path) -> None:
    analysis = _found(tmp_path, *POLICIES[5:8], ttft_target=True)
    words = headline(analysis)
    assert words.answer[-1].title == "On time"
    assert not any("BEAR" in line for each in words.answer for line in each.lines)
    assert analysis.on_time is not None
    assert "BEAR over the best baseline" not in [c.title for c in leaders_table(analysis.on_time).columns]
    tables = page_tables(analysis)
    shown = [*tables.on_time, *(section.on_time for section in tables.sections if section.on_time)]
    assert "OnTimeUtility" in {table.caption for table in shown}
    assert not any(column.title == "part" for table in shown for column in table.columns)


def test_columns_that_tell_nothing_are_left_out() -> None:
    columns = (
        Column("policy"),
        Column("unknown"),
        Column("part", is_optional=True),
        Column("kind", is_optional=True),
        Column("n"),
    )
    rows = tuple(
        (Value(name), Value("–"), Value("baseline"), Value(name), Value("7")) for name in ("first", "second")
    )
    shown = telling(Table("t", "", columns, rows))
    assert [column.title for column in shown.columns] == ["policy", "kind", "n"]
    assert [value.text for value in shown.rows[1]] == ["second", "second", "7"]


@pytest.mark.parametrize(
    ("policies", "expected", "why"),
    [
        ((POLICIES[0], *POLICIES[5:8]), POLICIES[6], "the usual one"),
        ((POLICIES[0], POLICIES[5]), POLICIES[5], "no passthrough/shortest-queue"),
        (
            (POLICIES[0], POLICIES[5], _passthrough("least-work")),
            _passthrough("least-work"),
            "no passthrough/shortest-queue",
        ),
        ((ORACLE, *POLICIES[:2], POLICIES[-1]), POLICIES[-1], "no passthrough policy"),
        (POLICIES[:2], POLICIES[0], "RouteBalance and BEAR alone"),
    ],
    ids=["shortest-queue", "round-robin", "least-loaded-first", "no-passthrough", "routebalance-alone"],
)
def test_the_baseline_is_no_policy_under_test_where_there_is_another(
    tmp_path: Path, policies: tuple[Policy, ...], expected: Policy, why: str
) -> None:
    analysis = _found(tmp_path, *policies)
    assert analysis.baseline_label == expected.label
    assert why in analysis.baseline.why
    assert f"Baseline: {expected.label}, " in headline(analysis).run
    assert headline(analysis).run.endswith(f"{analysis.baseline.why}.")
