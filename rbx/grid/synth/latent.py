"""The random model behind synthetic scores and lengths; docs/datasets.md derives each preset's constants.

Quality of model m on prompt i, with c the prompt's (family, topic) and f its family::

    z_im = μ_fm + σ · (√ρ · C_i + √(1 − ρ) · S_im)        latent quality
    C_i  = √λ · ease(f, c) + √(1 − λ) · ε_i                common to all models
    S_im = √κ · affinity(c, m) + √(1 − κ) · ε_im           specific to one
    score = round(10 · z_im) / 10, held to [0, 1]          as coarse as the judge's

Each of ease, affinity and ε has mean 0 and variance 1 over the prompts, or over those of each family. Ease
and affinity depend on what the text is about, which an encoder can see; the ε it cannot. Output tokens::

    ln L_im = ln median(f) + ln factor_m + a_f · topic(c) + b_f · η_i + c_f · η_im

rounded, at least 3 and cut at the generation limit.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rbx.grid.synth.family import N_TOPICS
from rbx.grid.synth.prompts import Drawn

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MIN_TOKENS = 3

# What each topic is like belongs to the model, not to a grid: it is the same for every seed.
_NATURE = 20_260_617


@dataclass(frozen=True)
class ScoreModel:
    """Constants of the scores of F families and M models.

    ``mean`` (F, M) is μ; ``spread`` σ, ``common`` ρ, ``seen_ease`` λ, ``seen_affinity`` κ. ``family_ease``
    (F,) and ``topic_ease``, the spread of topics, make up the ease. ``within_family`` standardises over the
    prompts of each family instead of all, so that ``mean`` alone sets a family's mean scores.
    """

    mean: tuple[tuple[float, ...], ...]
    spread: float
    common: float
    seen_ease: float
    seen_affinity: float
    family_ease: tuple[float, ...]
    topic_ease: float
    within_family: bool = False


@dataclass(frozen=True)
class LengthShape:
    """Answers of one family: median, and the spread of ln L by topic, by prompt and by answer (a, b, c)."""

    median_tokens: float
    topic: float = 0.25
    prompt: float = 0.50
    answer: float = 0.30


@dataclass(frozen=True)
class LengthModel:
    """Constants of the output lengths: a shape by family, a factor by model, the generation limit."""

    shapes: tuple[LengthShape, ...]
    factor: tuple[float, ...]
    most_tokens: int


def draw_scores(drawn: Drawn, model: ScoreModel, generator: np.random.Generator) -> Floats:
    """Scores of shape (N, M) in {0, 0.1, …, 1}."""
    return coarse(latent_scores(drawn, model, generator))


def latent_scores(drawn: Drawn, model: ScoreModel, generator: np.random.Generator) -> Floats:
    """z of shape (N, M), before a judge puts it on its scale."""
    mean = np.array(model.mean)
    (n_families, n_models), n = mean.shape, len(drawn.texts)
    group = drawn.family if model.within_family else np.zeros(n, dtype=np.int64)
    nature = np.random.default_rng(_NATURE)
    ease = np.repeat(model.family_ease, N_TOPICS)
    ease = ease + model.topic_ease * nature.standard_normal(n_families * N_TOPICS)
    affinity = nature.standard_normal((n_families * N_TOPICS, n_models))
    own = standardised(generator.standard_normal(n), group)
    specific = standardised(generator.standard_normal((n, n_models)), group)
    common = _mix(model.seen_ease, standardised(ease[drawn.cell], group), own)
    special = _mix(model.seen_affinity, standardised(affinity[drawn.cell], group), specific)
    latent: Floats = mean[drawn.family] + model.spread * _mix(model.common, common[:, None], special)
    return latent


def draw_lengths(drawn: Drawn, model: LengthModel, generator: np.random.Generator) -> Ints:
    """Output tokens of shape (N, M)."""
    n, shapes = len(drawn.texts), model.shapes
    everybody = np.zeros(n, dtype=np.int64)
    table = np.array([(each.median_tokens, each.topic, each.prompt, each.answer) for each in shapes])
    median, by_topic, by_prompt, by_answer = table[drawn.family].T
    topic = np.random.default_rng([_NATURE, 1]).standard_normal(len(shapes) * N_TOPICS)[drawn.cell]
    own = standardised(generator.standard_normal(n), everybody)
    answer = standardised(generator.standard_normal((n, len(model.factor))), everybody)
    shared = np.log(median) + by_topic * standardised(topic, everybody) + by_prompt * own
    tokens = np.exp(shared[:, None] + by_answer[:, None] * answer) * np.array(model.factor)
    held: Ints = np.clip(np.rint(tokens), MIN_TOKENS, model.most_tokens).astype(np.int64)
    return held


def coarse(latent: Floats) -> Floats:
    """The judge's scale: tenths between 0 and 1, halves rounded up."""
    tenths: Floats = np.clip(np.floor(10.0 * latent + 0.5), 0.0, 10.0)
    return tenths / 10.0


def standardised(values: Floats, group: Ints) -> Floats:
    """Mean 0 and variance 1 over the prompts of each group (N,), so that small grids keep their means.

    A group of one prompt gives 0.
    """
    scaled = np.zeros_like(values)
    for each in np.unique(group):
        rows = group == each
        centred = values[rows] - values[rows].mean(axis=0)
        spread = centred.std(axis=0)
        scaled[rows] = np.divide(centred, spread, out=np.zeros_like(centred), where=spread > 0)
    return scaled


def _mix(share: float, first: Floats, second: Floats) -> Floats:
    mixed: Floats = np.sqrt(share) * first + np.sqrt(1.0 - share) * second
    return mixed
