"""Axes of figures: wide ranges on a log scale, and nothing that falls off one."""

from __future__ import annotations

import math

import pytest
from matplotlib.figure import Figure

from rbx.report.figures.style import log_where_wide


@pytest.mark.parametrize(
    ("values", "scale"),
    [
        ([1.0, 20.0], "log"),
        ([1.0, 10.0], "linear"),
        ([1.0, 20.0, math.nan], "log"),
        ([0.0, 1.0, 20.0], "linear"),  # a free model would not be drawn
        ([math.nan, 20.0], "linear"),
        ([], "linear"),
    ],
)
def test_an_axis_is_logarithmic_where_values_are_wide_apart_and_none_is_zero(
    values: list[float], scale: str
) -> None:
    axes = Figure().subplots()
    log_where_wide(axes, "x", values)
    assert (axes.get_xscale(), axes.get_yscale()) == (scale, "linear")
