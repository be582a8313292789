"""The legend above a figure's axes, in as many columns as fit: no name ends outside the canvas."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.artist import Artist
from matplotlib.figure import Figure
from matplotlib.legend import Legend

from rbx.report.figures.labels import renderer_of

_STAMP_IN = 0.2  # the stamp stands above the legend
_ROW_IN = 0.27  # what figures leave free for a legend of one row
_SIDE_IN = 0.12
_MOST_COLUMNS = 6


def legend_above(figure: Figure, handles: Sequence[Artist], *, fontsize: float = 8) -> None:
    """Name the handles below the stamp. Called when the axes stand, with room for one row above them.

    Where names need more rows the figure grows at its top; all that stands in it keeps its place and size.
    """
    if not handles:
        return
    width_in, height_in = figure.get_size_inches()
    room_px = (width_in - 2 * _SIDE_IN) * figure.dpi
    renderer = renderer_of(figure)
    for columns in range(min(_MOST_COLUMNS, len(handles)), 0, -1):
        legend = _legend(figure, handles, columns, fontsize)
        box = legend.get_window_extent(renderer)
        if box.width <= room_px or columns == 1:
            break
        legend.remove()
    grown_in = height_in + max(0.0, box.height / figure.dpi - _ROW_IN)
    grow(figure, grown_in)
    legend.set_bbox_to_anchor((_SIDE_IN / width_in, 1 - _STAMP_IN / grown_in), transform=figure.transFigure)


def grow(figure: Figure, height_in: float) -> None:
    """Make the figure higher by free room at its top."""
    width_in, before_in = figure.get_size_inches()
    share = before_in / height_in
    figure.set_size_inches(width_in, height_in)
    for axes in figure.axes:
        x, y, width, height = axes.get_position().bounds
        axes.set_position((x, y * share, width, height * share))
    for text in figure.texts:
        x, y = text.get_position()
        text.set_position((x, y * share))


def _legend(figure: Figure, handles: Sequence[Artist], columns: int, fontsize: float) -> Legend:
    return figure.legend(
        handles=list(handles),
        loc="upper left",
        ncols=columns,
        fontsize=fontsize,
        handletextpad=0.4,
        columnspacing=1.4,
        borderaxespad=0.0,
        borderpad=0.2,
    )
