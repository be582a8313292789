"""A finished figure: as a file, and as SVG that takes its colours from the page around it."""

from __future__ import annotations

import io
import re
from dataclasses import dataclass

from matplotlib.figure import Figure

from rbx.report.figures.style import FAINT, INK, PAPER, RULE
from rbx.report.looks import HUES

_PAGE_COLOURS = {
    INK: "currentColor",
    PAPER: "var(--paper)",
    RULE: "var(--rule)",
    FAINT: "var(--faint)",
    **{colour: f"var(--{hue})" for hue, colour in HUES.items()},
}
_PNG_DPI = 160


@dataclass(frozen=True)
class Drawing:
    """``name`` is the file's stem, ``alt`` says in words what the figure shows."""

    name: str
    title: str
    alt: str
    svg: str
    png: bytes
    pdf: bytes

    @property
    def inline_svg(self) -> str:
        """SVG for an HTML page: no prolog, ids of its own, colours by CSS variables."""
        body = self.svg[self.svg.index("<svg") :]
        body = re.sub(r"<metadata>.*?</metadata>\s*", "", body, flags=re.DOTALL)
        body = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{self.name}-", body)
        for fixed, variable in _PAGE_COLOURS.items():
            body = body.replace(fixed, variable)
        # Text is set in the page's own font; the sizes are matplotlib's.
        return re.sub(r"(\d+px) 'DejaVu Sans'[^;\"]*", r"\g<1> var(--sans)", body)


def finish(figure: Figure, *, name: str, title: str, alt: str) -> Drawing:
    """Render as SVG, PNG and PDF; the same figure gives the same bytes."""
    svg, png, pdf = io.StringIO(), io.BytesIO(), io.BytesIO()
    figure.savefig(svg, format="svg", metadata={"Date": None, "Creator": None})
    figure.savefig(png, format="png", dpi=_PNG_DPI, metadata={"Software": None})
    figure.savefig(pdf, format="pdf", metadata={"CreationDate": None, "Creator": None, "Producer": None})
    return Drawing(name, title, alt, svg.getvalue(), png.getvalue(), pdf.getvalue())
