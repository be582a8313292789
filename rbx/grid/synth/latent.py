"""The random model behind synthetic scores and lengths; docs/datasets.md derives its constants.

Quality of model m on prompt i, with c the prompt's (family, topic) and f its family::

    z_im = μ_m + σ · (√ρ · C_i + √(1 − ρ) · S_im)         latent quality
    C_i  = √λ · ease(f, c) + √(1 − λ) · ε_i                common to all models
    S_im = √κ · affinity(c, m) + √(1 − κ) · ε_im           specific to one
    score = round(10 · z_im) / 10, held to [0, 1]          as coarse as the judge's

Each of ease, affinity and ε has mean 0 and variance 1 over the prompts. Ease and affinity depend on what
the text is about, which an encoder can see; the ε it cannot. Output tokens::

    ln L_im = ln median(f) + ln factor_m + 0.25 · topic(c) + 0.50 · η_i + 0.30 · η_im

rounded, at least 3 and cut at 1,024, the authors' generation limit.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rbx.grid.synth.families import FAMILIES, N_TOPICS
from rbx.grid.synth.prompts import Drawn

Floats = NDArray[np.float64]

MODELS = ("Qwen2.5-3B", "Qwen2.5-7B", "Qwen2.5-14B", "Qwen2.5-72B")

# Solved for the published mean scores, zeros and oracle; tests/grid/synth/test_latent.py holds them to it.
MEAN = np.array([0.2988, 0.2786, 0.3700, 0.3846])  # μ
SPREAD = 0.3969  # σ
COMMON = 0.5993  # ρ
# κ: set so that KNN over MiniLM picks the best model as often as published. A small grid has fewer
# neighbours for each prompt, so it takes more for KNN to find as much.
SEEN_AFFINITY = {"routebalance": 0.09, "quickstart": 0.12}
# Not published: our choice.
SEEN_EASE = 0.30  # λ
FAMILY_EASE = {
    "instruction": 0.4,
    "code": -0.2,
    "safety": 0.5,
    "chat": 0.3,
    "maths": -1.1,
    "reading": 0.6,
    "preference": -0.5,
}
TOPIC_EASE = 0.6

# Our choice by family; the factors scale the means to those that the published costs imply.
MEDIAN_TOKENS = {
    "instruction": 130.0,
    "code": 320.0,
    "safety": 75.0,
    "chat": 190.0,
    "maths": 140.0,
    "reading": 22.0,
    "preference": 150.0,
}
LENGTH_FACTOR = np.array([0.976, 1.012, 1.054, 1.120])
TOPIC_LENGTH, PROMPT_LENGTH, ANSWER_LENGTH = 0.25, 0.50, 0.30
MIN_TOKENS, MAX_TOKENS = 3, 1024

# What each topic is like belongs to the model, not to a grid: it is the same for every seed.
_NATURE = 20_260_617


def draw_scores(drawn: Drawn, seen_affinity: float, generator: np.random.Generator) -> Floats:
    """Scores of shape (N, 4) in {0, 0.1, …, 1}, in the order of ``MODELS``; ``seen_affinity`` is κ."""
    n, n_cells = len(drawn.texts), len(FAMILIES) * N_TOPICS
    nature = np.random.default_rng(_NATURE)
    family_ease = np.repeat([FAMILY_EASE[family.name] for family in FAMILIES], N_TOPICS)
    ease = family_ease + TOPIC_EASE * nature.standard_normal(n_cells)
    affinity = nature.standard_normal((n_cells, len(MODELS)))
    own = standardised(generator.standard_normal(n))
    specific = standardised(generator.standard_normal((n, len(MODELS))))
    common = _mix(SEEN_EASE, standardised(ease[drawn.cell]), own)
    special = _mix(seen_affinity, standardised(affinity[drawn.cell]), specific)
    return coarse(MEAN + SPREAD * _mix(COMMON, common[:, None], special))


def draw_lengths(drawn: Drawn, generator: np.random.Generator) -> NDArray[np.int64]:
    """Output tokens of shape (N, 4), in the order of ``MODELS``."""
    n, n_cells = len(drawn.texts), len(FAMILIES) * N_TOPICS
    median = np.array([MEDIAN_TOKENS[family.name] for family in FAMILIES])[drawn.family]
    topic = np.random.default_rng([_NATURE, 1]).standard_normal(n_cells)[drawn.cell]
    own = standardised(generator.standard_normal(n))
    answer = standardised(generator.standard_normal((n, len(MODELS))))
    shared = np.log(median) + TOPIC_LENGTH * standardised(topic) + PROMPT_LENGTH * own
    tokens = np.exp(shared[:, None] + ANSWER_LENGTH * answer) * LENGTH_FACTOR
    held: NDArray[np.int64] = np.clip(np.rint(tokens), MIN_TOKENS, MAX_TOKENS).astype(np.int64)
    return held


def coarse(latent: Floats) -> Floats:
    """The judge's scale: tenths between 0 and 1, halves rounded up."""
    tenths: Floats = np.clip(np.floor(10.0 * latent + 0.5), 0.0, 10.0)
    return tenths / 10.0


def standardised(values: Floats) -> Floats:
    """Mean 0 and variance 1 over the prompts, so that small grids keep their means; one prompt gives 0."""
    centred = values - values.mean(axis=0)
    spread = centred.std(axis=0)
    scaled: Floats = np.divide(centred, spread, out=np.zeros_like(centred), where=spread > 0)
    return scaled


def _mix(share: float, first: Floats, second: Floats) -> Floats:
    mixed: Floats = np.sqrt(share) * first + np.sqrt(1.0 - share) * second
    return mixed
