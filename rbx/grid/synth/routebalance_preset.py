"""Presets ``routebalance`` and ``quickstart``: the seven kinds of prompt and four models of RouteBalance."""

from __future__ import annotations

from dataclasses import replace

from rbx.grid.synth.code import CODE
from rbx.grid.synth.family import Family
from rbx.grid.synth.latent import LengthModel, LengthShape, ScoreModel
from rbx.grid.synth.maths import MATHS
from rbx.grid.synth.preset import Preset
from rbx.grid.synth.safety import SAFETY
from rbx.grid.synth.talk import CHAT, INSTRUCTION, PREFERENCE, READING

FAMILIES: tuple[Family, ...] = (INSTRUCTION, CODE, SAFETY, CHAT, MATHS, READING, PREFERENCE)
MODELS = ("Qwen2.5-3B", "Qwen2.5-7B", "Qwen2.5-14B", "Qwen2.5-72B")

# Not published: our choice.
_EASE = {
    "instruction": 0.4,
    "code": -0.2,
    "safety": 0.5,
    "chat": 0.3,
    "maths": -1.1,
    "reading": 0.6,
    "preference": -0.5,
}
_MEDIAN_TOKENS = {
    "instruction": 130.0,
    "code": 320.0,
    "safety": 75.0,
    "chat": 190.0,
    "maths": 140.0,
    "reading": 22.0,
    "preference": 150.0,
}

# μ, σ and ρ are solved for the published mean scores, zeros and oracle; tests/grid/synth/test_latent.py
# holds them to it. κ is set so that KNN over MiniLM picks the best model as often as published.
_SCORES = ScoreModel(
    mean=((0.2988, 0.2786, 0.3700, 0.3846),) * len(FAMILIES),
    spread=0.3969,
    common=0.5993,
    seen_ease=0.30,
    seen_affinity=0.09,
    family_ease=tuple(_EASE[family.name] for family in FAMILIES),
    topic_ease=0.6,
)
# The factors scale the means to those that the published costs imply; 1,024 is the authors' limit.
_LENGTHS = LengthModel(
    shapes=tuple(LengthShape(_MEDIAN_TOKENS[family.name]) for family in FAMILIES),
    factor=(0.976, 1.012, 1.054, 1.120),
    most_tokens=1024,
)

ROUTEBALANCE = Preset(
    name="routebalance",
    prompts=18_608,
    families=FAMILIES,
    models=MODELS,
    scores=_SCORES,
    lengths=_LENGTHS,
    template_tokens=20,  # ChatML with Qwen2.5's default system message
)
# A small grid has fewer neighbours for each prompt, so it takes more for KNN to find as much.
QUICKSTART = replace(
    ROUTEBALANCE, name="quickstart", prompts=2_400, scores=replace(_SCORES, seen_affinity=0.12)
)
