"""How often a router changes its choice when nothing but the prompt's wording changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rbx.heads.embedding_cache import encode_cached
from rbx.heads.progress import Progress
from rbx.heads.routers.head import AskedPrompts
from rbx.report.interval import Interval
from rbx.report.paired import Resampling
from rbx.report.routers.contender import Contender
from rbx.report.routers.means import PairedMeans
from rbx.report.routers.population import Material
from rbx.report.routers.prompt_noise import NOISES, Noise


@dataclass(frozen=True)
class FlipRow:
    """One router under one noise: share of prompts whose model changes, and what that does to quality.

    Labels are those of the clean prompts: the models answer as before, the choice alone changes.
    """

    router: str
    noise: str
    kind: str
    flipped: Interval
    quality_change: Interval


def flip_rows(
    contenders: Sequence[Contender],
    material: Material,
    seed: int,
    resampling: Resampling,
    progress: Progress,
    noises: Sequence[Noise] = NOISES,
) -> tuple[FlipRow, ...]:
    """One row a router and noise, each noise seeded by ``seed`` and the prompt's text."""
    people, bundle = material.population, material.bundle
    texts = {noise.name: tuple(noise(text, seed) for text in people.asked.texts) for noise in noises}
    every = [text for changed in texts.values() for text in changed]
    embeddings = encode_cached(bundle.encoder, every, progress).reshape(len(noises), people.n, -1)
    rows = np.arange(people.n)
    columns, named = [], []
    for contender in contenders:
        clean = contender.choices(bundle, material.pool, people.asked, people.input_tokens)
        for noise, vectors in zip(noises, embeddings, strict=True):
            asked = AskedPrompts(texts[noise.name], vectors, people.asked.sources)
            noisy = contender.choices(bundle, material.pool, asked, people.input_tokens)
            columns.append((noisy != clean).astype(np.float64))
            columns.append(people.score[rows, noisy] - people.score[rows, clean])
            named.append((contender.label, noise))
    means = PairedMeans(columns, resampling)
    return tuple(
        FlipRow(label, noise.name, noise.kind, means.mean(2 * k), means.mean(2 * k + 1))
        for k, (label, noise) in enumerate(named)
    )
