"""Source ``synth``: a whole grid out of a seed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from rbx.config.base import digest
from rbx.grid.harvest import (
    HARVEST_LABELS,
    HARVEST_PROMPTS,
    HARVEST_RESPONSES,
    Harvest,
    Say,
    harvest_columns,
)
from rbx.grid.schema import DEFAULT_METRIC
from rbx.grid.spec import SynthSource
from rbx.grid.synth.latent import coarse, draw_lengths, latent_scores
from rbx.grid.synth.mean_scores import with_mean_scores
from rbx.grid.synth.preset import Preset
from rbx.grid.synth.presets import PRESETS
from rbx.grid.synth.prompts import Drawn, draw_prompts
from rbx.grid.synth.second_judge import METRIC, second_scores

CHARACTERS_PER_TOKEN = 4
MODEL_VERSION = 1


def draw_synthetic(spec: SynthSource, say: Say) -> Harvest:
    """Prompts, lengths and scores; the same preset, n and seed give the same rows."""
    preset = PRESETS[spec.preset]
    n = spec.n if spec.n is not None else preset.prompts
    say(f"drawing {n:,} synthetic prompts")
    seeds = np.random.SeedSequence(spec.seed).spawn(4)
    prompts, scores, lengths, second = (np.random.default_rng(seed) for seed in seeds)
    drawn = draw_prompts(n, preset.families, prompts)
    provenance: dict[str, Any] = {
        "generator": f"rbx synthetic model {MODEL_VERSION}, see docs/datasets.md",
        "preset": spec.preset,
        "n": n,
        "seed": spec.seed,
        "input_tokens": f"estimated: {preset.template_tokens} + characters / {CHARACTERS_PER_TOKEN}",
        "responses": "none: no model answered; lengths and scores are drawn",
        **preset.assumptions,
    }
    model = preset.scores
    if spec.seen_affinity is not None:
        model = replace(model, seen_affinity=spec.seen_affinity)
        provenance["seen_affinity"] = spec.seen_affinity
    latent = latent_scores(drawn, model, scores)
    if spec.mean_scores:
        latent = with_mean_scores(latent, drawn.family, preset, spec.mean_scores)
        provenance["mean_scores"] = {at: dict(means) for at, means in spec.mean_scores.items()}
    labels = [_labels(preset, coarse(latent), DEFAULT_METRIC)]
    if spec.second_judge:
        provenance["second_judge"] = f"metric {METRIC}: agrees with the first in part, see docs/datasets.md"
        labels.append(_labels(preset, second_scores(latent, second), METRIC))
    return Harvest(
        prompts=_prompts(preset, drawn),
        responses=_responses(preset, draw_lengths(drawn, preset.lengths, lengths)),
        labels=pa.concat_tables(labels),
        provenance=provenance,
        synthetic=True,
    )


def _keys(n: int) -> list[str]:
    return [f"synth-{row}" for row in range(n)]


def _prompts(preset: Preset, drawn: Drawn) -> pa.Table:
    tokens = [preset.template_tokens - (-len(text) // CHARACTERS_PER_TOKEN) for text in drawn.texts]
    n = len(drawn.texts)
    families = [f"synthetic/{preset.families[family].name}" for family in drawn.family]
    columns = {
        "key": pa.array(_keys(n), pa.string()),
        "prompt": pa.array(drawn.texts, pa.string()),
        "source": pa.array(families, pa.string()),
        "is_harmful": pa.array(drawn.is_harmful),
        "input_tokens": pa.array(tokens, pa.int32()),
    }
    return harvest_columns(columns, HARVEST_PROMPTS)


def _constant(value: str, n: int) -> pa.Array:
    return pa.array([value] * n, pa.string())


def _pairs(n: int, models: tuple[str, ...]) -> tuple[pa.Array, pa.Array]:
    keys = pa.array(np.repeat(np.array(_keys(n), dtype=object), len(models)), pa.string())
    return keys, pa.array(list(models) * n, pa.string())


def _responses(preset: Preset, tokens: np.ndarray[Any, np.dtype[np.int64]]) -> pa.Table:
    keys, models = _pairs(len(tokens), preset.models)
    rows = tokens.size
    finish = np.where(tokens.ravel() >= preset.lengths.most_tokens, "length", "stop")
    columns = {
        "key": keys,
        "model": models,
        "output_tokens": pa.array(tokens.ravel(), pa.int32()),
        "finish_reason": pa.array(finish, pa.string()),
        "generation_digest": _constant(digest(["synth", MODEL_VERSION]), rows),
        "status": _constant("ok", rows),
    }
    return harvest_columns(columns, HARVEST_RESPONSES)


def _labels(preset: Preset, scores: np.ndarray[Any, np.dtype[np.float64]], metric: str) -> pa.Table:
    judge = ["synth", MODEL_VERSION] if metric == DEFAULT_METRIC else ["synth", MODEL_VERSION, metric]
    keys, models = _pairs(len(scores), preset.models)
    rows = scores.size
    columns = {
        "key": keys,
        "model": models,
        "metric": _constant(metric, rows),
        "score": pa.array(scores.ravel()),
        "status": _constant("ok", rows),
        "judge_digest": _constant(digest(judge), rows),
    }
    return harvest_columns(columns, HARVEST_LABELS)
