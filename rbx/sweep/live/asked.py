"""A live sweep asks as the grid's answers were asked for, or its quality would be that of other answers."""

from __future__ import annotations

from typing import Any

from rbx.config.base import parse
from rbx.config.experiment import Experiment
from rbx.config.labelling import Generation
from rbx.config.live import OURS
from rbx.errors import ConfigError
from rbx.grid.manifest import read_manifest
from rbx.label.recipe import sampling

GREEDY = {"temperature": 0}


def asked_as_the_grid(experiment: Experiment) -> Experiment:
    """The experiment with ``live.body``, and with it ``live.system``, where the file left them open.

    They are those of the grid's own generation where it was made by asking models; other grids do not say,
    and temperature 0 is sent.
    """
    live = experiment.live
    if live is None or live.body is not None:
        return experiment
    generation = _generation(experiment)
    if generation is None:
        filled: dict[str, Any] = {"body": GREEDY}
    else:
        told = {**sampling(generation), **generation.extra}
        body = {name: value for name, value in told.items() if name not in OURS}
        filled = {"body": body, "system": live.system or generation.system}
    return experiment.model_copy(update={"live": live.model_copy(update=filled)})


def _generation(experiment: Experiment) -> Generation | None:
    source = read_manifest(experiment.grid).spec.get("source")
    if not isinstance(source, dict) or source.get("kind") != "label":
        return None
    try:
        return parse(Generation, source.get("generation") or {}, where=f"{experiment.grid}: generation")
    except ConfigError:
        return None  # of a version that asked in ways which this one doesn't know
