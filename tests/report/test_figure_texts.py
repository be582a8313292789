"""Figures of a sweep with many kinds of policies: nothing is cut off, and a family looks the same in all."""

from __future__ import annotations

import re

import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from rbx.config.deployment import Serial
from rbx.config.policy import BearPolicy, RouteBalancePolicy, RoutedPolicy
from rbx.report.figures.style import elided, family_words
from rbx.report.paired import Resampling
from rbx.report.run import Report, write_report
from tests.report.saved_figures import assert_nothing_is_cut_off, drawn_with, saved_figures, tight
from tests.report.sweeps import MODELS, Policy, SweepShape, write_sweep

_POLICIES: tuple[Policy, ...] = (
    RouteBalancePolicy(weights=(1 / 3, 1 / 3, 1 / 3)),
    RouteBalancePolicy(weights=(0.8, 0.1, 0.1)),
    RoutedPolicy(router="passthrough", dispatch="shortest-queue"),
    RoutedPolicy(router="passthrough", dispatch="random"),
    RoutedPolicy(router="always", dispatch="shortest-queue", model=MODELS[0]),
    *(
        RoutedPolicy(
            router="avengers-pro",
            performance_weight=weight,
            dispatch="shortest-queue",
            batched=False,
            deployment=Serial(),
        )
        for weight in (0.25, 0.53)
    ),
    RoutedPolicy(router="best-route-frozen", dispatch="random", threshold=0.5),
    RoutedPolicy(router="port", dispatch="random", mean_budget_usd=1.2e-4),
    RoutedPolicy(router="cascade", dispatch="random", mean_budget_usd=1.2e-4),
    RoutedPolicy(router="knn", dispatch="random"),
    RoutedPolicy(router="omni-router", dispatch="random", min_quality=0.5),
    RoutedPolicy(router="semantic-router", dispatch="random", threshold=0.5),
    RoutedPolicy(router="matrix-factorisation", dispatch="random", threshold=0.5),
    BearPolicy(),
)


class Drawn:
    """The report, its figures, and what they look like when they are saved."""

    def __init__(self, report: Report, figures: list[Figure]) -> None:
        self.report, self.figures = report, figures


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Drawn:
    shape = SweepShape(
        policies=_POLICIES, rates_per_s=(6.0, 12.0), n_prompts=60, n_requests=80, ttft_target=True
    )
    folder = write_sweep(tmp_path_factory.mktemp("many") / "many", shape)
    with saved_figures() as figures:
        report = write_report(folder, resampling=Resampling(n_resamples=50))
    assert len(figures) == 9
    return Drawn(report, list(figures.values()))


def test_no_text_stands_outside_its_canvas(drawn: Drawn) -> None:
    for figure in drawn.figures:
        assert_nothing_is_cut_off(figure)


def test_a_legend_covers_no_title_and_no_stamp(drawn: Drawn) -> None:
    for figure in drawn.figures:
        renderer = drawn_with(figure)
        for legend in figure.legends:
            box = legend.get_window_extent(renderer)
            for axes in figure.axes:
                assert not box.overlaps(tight(axes, renderer)), legend.get_texts()[0].get_text()
            for text in figure.texts:
                assert not box.overlaps(text.get_window_extent(renderer)), text.get_text()


def test_numbers_of_axes_are_plain(drawn: Drawn) -> None:
    for path in (drawn.report.page.parent / "figures").glob("*.svg"):
        assert "mathdefault" not in path.read_text("utf-8"), path.name


def test_a_family_has_its_colour_and_marker_in_every_legend(drawn: Drawn) -> None:
    looks = drawn.report.analysis.looks
    assert len(looks) == 12
    words = {family_words(family): look for family, look in looks.items()}
    named = 0
    for figure in drawn.figures:
        for legend in figure.legends:
            for handle, text in zip(legend.legend_handles, legend.get_texts(), strict=True):
                if isinstance(handle, Line2D) and text.get_text() in words:
                    look = words[text.get_text()]
                    assert (to_hex(str(handle.get_color())), handle.get_marker()) == (
                        look.colour,
                        look.marker,
                    )
                    named += 1
    assert named >= 5 * len(looks)  # two scatters, load, two hulls


def test_dots_of_the_tables_have_the_colours_of_the_figures(drawn: Drawn) -> None:
    page = drawn.report.page.read_text(encoding="utf-8")
    dots = re.findall(r'<i class="dot" style="--c: var\(--([a-z]+)\)"></i>([a-z-]+)', page)
    found = {name: hue for hue, name in dots}
    looks = drawn.report.analysis.looks
    for family in ("avengers-pro", "best-route-frozen", "port", "cascade", "knn", "passthrough"):
        assert found[family] == looks[family].hue
        assert f"--{looks[family].hue}: #" in page


def test_the_radar_says_what_it_draws_and_names_what_it_leaves_out(drawn: Drawn) -> None:
    folder = drawn.report.page.parent / "figures"
    words = " ".join(re.findall(r"<text[^>]*>([^<]*)</text>", (folder / "radar.svg").read_text("utf-8")))
    assert "of each other family but references the policy of highest quality" in words
    left_out = words.partition("Left out, as of lower quality: ")[2].partition(".")[0].split(", ")
    assert len(left_out) == 3
    for family in ("best-route-frozen", "port", "cascade", "knn", "omni-router"):
        assert family in words


def test_the_longest_label_keeps_its_start_and_its_end() -> None:
    assert elided("avengers-pro pw0.53 SQ serial", 40) == "avengers-pro pw0.53 SQ serial"
    short = elided("avengers-pro pw0.53 SQ serial | cost below 3", 20)
    assert len(short) == 20
    assert short.startswith("avengers-p")
    assert short.endswith("t below 3")
