"""Figures of the report, drawn from an ``Analysis``."""

from __future__ import annotations

from collections.abc import Iterator

from rbx.report.analysis import Analysis
from rbx.report.figures.drawing import Drawing
from rbx.report.figures.hull import draw_hulls
from rbx.report.figures.load import draw_load
from rbx.report.figures.mix import draw_mix
from rbx.report.figures.on_time import draw_on_time
from rbx.report.figures.predictions import draw_predictions
from rbx.report.figures.radar import draw_radar
from rbx.report.figures.tradeoff import draw_tradeoffs

__all__ = ["Drawing", "draw_all"]


def draw_all(analysis: Analysis) -> Iterator[Drawing]:
    """Every figure, in the order of the page; those without anything to show are left out."""
    yield from draw_on_time(analysis)
    yield from draw_predictions(analysis)
    yield from draw_tradeoffs(analysis)
    yield from draw_load(analysis)
    yield from draw_hulls(analysis)
    yield from draw_radar(analysis)
    yield from draw_mix(analysis)
