"""One colour, marker and dash for each family of policies: the same in every figure and table of a report.

Ten hues that colour-blind readers can tell apart: seven of Okabe and Ito, and wine, indigo and brown.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import NamedTuple

# Name of the hue as a variable of page.css, and its fixed value in figures.
HUES = {
    "blue": "#0072b2",
    "vermilion": "#d55e00",
    "green": "#009e73",
    "amber": "#e69f00",
    "pink": "#cc79a7",
    "black": "#222222",
    "sky": "#56b4e9",
    "wine": "#882255",
    "indigo": "#4b2fb0",
    "brown": "#7a4a1e",
}
DASHES = ("-", "--", ":", "-.")
_MARKERS = ("o", "s", "^", "D", "v", "X", "P", "*", "p", "h", "<", ">", "d", "8")
# Each wishes for the hue of its place, round and round: the first ten always have theirs.
_KNOWN = (
    "routebalance",
    "passthrough",
    "always",
    "random",
    "mix",
    "bear",
    "avengers-pro",
    "best-route-frozen",
    "port",
    "score",
    "latency-agnostic",
    "cascade",
    "knn",
    "best-route",
    "omni-router",
    "matrix-factorisation",
    "semantic-router",
    "vllm-sr",
    "linear",
    "mlp",
    "source-best",
    "oracle",
    "external",
)


class Look(NamedTuple):
    """``hue`` names a colour of ``HUES``; ``dash`` tells families apart that share one."""

    hue: str
    marker: str
    dash: str

    @property
    def colour(self) -> str:
        """As matplotlib takes it."""
        return HUES[self.hue]


def looks_of(families: Iterable[str]) -> dict[str, Look]:
    """A look for each family, in the order of known families and then by name.

    A known family has the hue of its place, unless an earlier one here wished for the same. It then takes
    the first free hue, as unknown ones do; once all are taken, hues come again with other markers and dashes.
    """
    present = set(families)
    order = [family for family in _KNOWN if family in present]
    order += sorted(present.difference(_KNOWN))
    slots: dict[int, str] = {}
    for place, family in enumerate(_KNOWN):
        if family in present:
            slots.setdefault(place % len(HUES), family)
    at = {family: slot for slot, family in slots.items()}
    free = (slot for slot in itertools.count() if slot not in slots)
    return {family: _look(at[family] if family in at else next(free)) for family in order}


def _look(slot: int) -> Look:
    hues = list(HUES)
    lap, hue = divmod(slot, len(hues))
    return Look(hues[hue], _MARKERS[slot % len(_MARKERS)], DASHES[lap % len(DASHES)])
