"""Figures caught as they are saved, and where their parts stand."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from matplotlib.backends.backend_agg import RendererAgg
from matplotlib.figure import Figure
from matplotlib.transforms import BboxBase

from rbx.report.figures.labels import renderer_of


@contextmanager
def saved_figures() -> Iterator[dict[int, Figure]]:
    """Fills with each figure that is saved meanwhile, in their order."""
    figures: dict[int, Figure] = {}
    savefig = Figure.savefig

    def keep(figure: Figure, *args: Any, **kwargs: Any) -> None:
        figures[id(figure)] = figure
        savefig(figure, *args, **kwargs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Figure, "savefig", keep)
        yield figures


def drawn_with(figure: Figure) -> RendererAgg:
    """What measures the figure, which is drawn with it once."""
    renderer = renderer_of(figure)
    figure.draw(renderer)
    return renderer


def assert_nothing_is_cut_off(figure: Figure) -> None:
    """Axes with all that is written at and in them, texts and names of legends stand on the canvas."""
    renderer = drawn_with(figure)
    drawn: list[tuple[str, BboxBase]] = [(repr(axes), tight(axes, renderer)) for axes in figure.axes]
    texts = [*figure.texts, *(text for legend in figure.legends for text in legend.get_texts())]
    drawn += [(text.get_text(), text.get_window_extent(renderer)) for text in texts]
    assert len(drawn) > 1
    for words, box in drawn:
        assert box.x0 >= -0.5, words
        assert box.y0 >= -0.5, words
        assert box.x1 <= figure.bbox.x1 + 0.5, words
        assert box.y1 <= figure.bbox.y1 + 0.5, words


def tight(axes: Any, renderer: RendererAgg) -> BboxBase:
    """The axes' box with ticks in sight, labels, titles and names beside points."""
    box: BboxBase | None = axes.get_tightbbox(renderer)
    assert box is not None
    return box
