"""Figures of the report on routers: every panel's title stands free, and nothing is cut off."""

from __future__ import annotations

import dataclasses
from itertools import combinations

import pytest
from matplotlib.text import Text

from rbx.report.routers.drawings import draw_routers
from rbx.report.routers.study import RouterStudy
from tests.report.saved_figures import assert_nothing_is_cut_off, drawn_with, saved_figures


@pytest.mark.parametrize("times", [1, 2])
def test_nothing_is_cut_off_and_no_title_covers_another(study: RouterStudy, times: int) -> None:
    many = dataclasses.replace(study, calibration=study.calibration * times)
    with saved_figures() as figures:
        drawn = list(draw_routers(many))
    titles = 0
    for drawing, figure in zip(drawn, figures.values(), strict=True):
        assert_nothing_is_cut_off(figure)
        renderer = drawn_with(figure)
        texts = [text for axes in figure.axes for text in axes.findobj(Text) if "error " in text.get_text()]
        boxes = [text.get_window_extent(renderer) for text in texts]
        titles += len(boxes)
        assert not any(one.overlaps(other) for one, other in combinations(boxes, 2)), drawing.name
    assert titles == len(many.calibration) > 1
