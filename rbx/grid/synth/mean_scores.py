"""A synthetic grid whose models score otherwise in the mean than its preset has them.

What a model is worth on a family of prompts is an assumption where only means over all prompts are published;
with other means a look tells what depends on it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from rbx.errors import ConfigError
from rbx.grid.synth.latent import Floats, Ints, coarse
from rbx.grid.synth.preset import Preset

ALL = "all"
_FURTHEST = 3.0  # beyond it every score is 0 or 1


def with_mean_scores(
    latent: Floats, family: Ints, preset: Preset, wanted: Mapping[str, Mapping[str, float]]
) -> Floats:
    """``latent`` (N, M) moved so that its scores have the means ``wanted``, as closely as tenths allow.

    ``wanted`` maps a family, or ``all``, to models and their mean scores; ``family`` (N,) are places in the
    preset's. A mean over all moves the families that are not named, each as far. Raises ``ConfigError`` for
    names that the preset lacks and means that can't be reached.
    """
    names = [each.name for each in preset.families]
    _check([*names, ALL], wanted, f"preset {preset.name} has no family")
    moved = latent.copy()
    for at, means in wanted.items():
        _check(preset.models, means, f"preset {preset.name} has no model")
        if at != ALL:
            rows = family == names.index(at)
            for model, mean in means.items():
                _move(moved, rows, preset.models.index(model), mean)
    for model, mean in wanted.get(ALL, {}).items():
        m = preset.models.index(model)
        named = [names.index(at) for at, means in wanted.items() if at != ALL and model in means]
        rest = ~np.isin(family, named)
        held = coarse(moved[~rest, m]).sum()
        left = (mean * len(moved) - held) / max(1, rest.sum())
        if not 0.0 <= left <= 1.0 or not rest.any():
            raise ConfigError(
                f"source.mean_scores: {model} can't score {mean:g} in the mean over all with what its "
                f"families are given; the others would have to score {left:.3g}"
            )
        _move(moved, rest, m, left)
    return moved


def _check(known: Sequence[str], given: Mapping[str, object], what: str) -> None:
    for name in given:
        if name not in known:
            raise ConfigError(f"source.mean_scores: {what} {name!r}; it has {', '.join(known)}")


def _move(latent: Floats, rows: NDArray[np.bool_], model: int, mean: float) -> None:
    """Shift one model's latent quality on ``rows`` in place, by halving the interval of shifts."""
    low, high = -_FURTHEST, _FURTHEST
    for _ in range(50):
        middle = (low + high) / 2
        short = coarse(latent[rows, model] + middle).mean() < mean
        low, high = (middle, high) if short else (low, middle)
    latent[rows, model] += high
