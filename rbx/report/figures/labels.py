"""Names beside points, placed so that none covers another, nor a point, a bar or a line."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg, RendererAgg
from matplotlib.figure import Figure
from matplotlib.path import Path
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from rbx.report.figures.style import INK

Line = tuple[tuple[float, float], tuple[float, float]]

_OFFSETS = (
    (7, 4),
    (7, -10),
    (-7, 4),
    (-7, -10),
    (0, 9),
    (0, -15),
    (14, 12),
    (-14, 12),
    (14, -18),
    (-14, -18),
)


def place_labels(
    figure: Figure,
    axes: Axes,
    names: list[tuple[float, float, str]],
    obstacles: list[tuple[float, float]],
    lines: list[Line],
    texts: list[Text],
) -> None:
    """Write each name near its (x, y); one that finds no free place is left out.

    ``obstacles`` are all points drawn and ``lines`` all pieces of line, in data coordinates; ``texts``
    stand there already: a name covers none of them.
    """
    renderer = renderer_of(figure)
    taken = [
        Bbox.from_bounds(x - 3.5, y - 3.5, 7, 7)
        for x, y in (axes.transData.transform(point) for point in obstacles)
    ]
    taken += [text.get_window_extent(renderer) for text in texts]
    drawn = [Path(axes.transData.transform(np.array(line))) for line in lines]
    frame = axes.get_window_extent(renderer)
    for x, y, name in names:
        for dx, dy in _OFFSETS:
            side = "left" if dx > 0 else "right" if dx < 0 else "center"
            text = axes.annotate(
                name, (x, y), xytext=(dx, dy), textcoords="offset points", fontsize=7.5, ha=side
            )
            box = text.get_window_extent(renderer)
            inside = frame.x0 <= box.x0 and box.x1 <= frame.x1 and frame.y0 <= box.y0 and box.y1 <= frame.y1
            crossed = any(path.intersects_bbox(box, filled=False) for path in drawn)
            if inside and not crossed and not any(box.overlaps(other) for other in taken):
                taken.append(box)
                break
            text.remove()


def write_at_edge(figure: Figure, axes: Axes, words: str, height: float, lines: list[Line]) -> Text:
    """Name a horizontal line above its right end, or above its left end where only that is free of lines."""
    renderer = renderer_of(figure)
    drawn = [Path(axes.transData.transform(np.array(line))) for line in lines]

    def at(x: float, side: str) -> Text:
        return axes.annotate(
            words,
            (x, height),
            xycoords=("axes fraction", "data"),
            xytext=(0, 2),
            textcoords="offset points",
            fontsize=7,
            color=INK,
            ha=side,
        )

    def is_free(text: Text) -> bool:
        box = text.get_window_extent(renderer)
        return not any(path.intersects_bbox(box, filled=False) for path in drawn)

    right = at(1.0, "right")
    if is_free(right):
        return right
    left = at(0.005, "left")
    kept, dropped = (left, right) if is_free(left) else (right, left)
    dropped.remove()
    return kept


def widest_in(figure: Figure, names: Iterable[str], fontsize: float) -> float:
    """Width of the widest name in inches, 0 without any."""
    renderer = renderer_of(figure)
    widest_px = 0.0
    for name in names:
        text = figure.text(0, 0, name, fontsize=fontsize)
        widest_px = max(widest_px, text.get_window_extent(renderer).width)
        text.remove()
    return widest_px / figure.dpi


def renderer_of(figure: Figure) -> RendererAgg:
    """What measures text. Some releases of matplotlib give its types and some do not."""
    renderer: RendererAgg = FigureCanvasAgg(figure).get_renderer()  # type: ignore[no-untyped-call, unused-ignore]
    return renderer
