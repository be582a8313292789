"""All presets by name."""

from __future__ import annotations

from rbx.grid.synth.bear_preset import BEAR
from rbx.grid.synth.preset import Preset
from rbx.grid.synth.routebalance_preset import QUICKSTART, ROUTEBALANCE

PRESETS: dict[str, Preset] = {each.name: each for each in (ROUTEBALANCE, QUICKSTART, BEAR)}
