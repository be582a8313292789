"""A preset: everything that makes one synthetic grid out of a seed and a number of prompts."""

from __future__ import annotations

from dataclasses import dataclass, field

from rbx.grid.synth.family import Family
from rbx.grid.synth.latent import LengthModel, ScoreModel


@dataclass(frozen=True)
class Preset:
    """Families of prompts, models, and the random model of their scores and lengths.

    ``prompts`` is the default number of prompts; ``template_tokens`` what the chat template adds to a
    prompt; ``assumptions`` go into the manifest, by what they are about.
    """

    name: str
    prompts: int
    families: tuple[Family, ...]
    models: tuple[str, ...]
    scores: ScoreModel
    lengths: LengthModel
    template_tokens: int
    assumptions: dict[str, str] = field(default_factory=dict)
