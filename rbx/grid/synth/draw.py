"""Source ``synth``: a whole grid out of a seed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from rbx.config.base import digest
from rbx.grid.harvest import HARVEST_LABELS, HARVEST_PROMPTS, HARVEST_RESPONSES, Harvest, Say
from rbx.grid.schema import DEFAULT_METRIC
from rbx.grid.spec import SynthSource
from rbx.grid.synth.families import FAMILIES
from rbx.grid.synth.latent import MAX_TOKENS, MODELS, SEEN_AFFINITY, draw_lengths, draw_scores
from rbx.grid.synth.prompts import Drawn, draw_prompts

PRESET_PROMPTS = {"routebalance": 18_608, "quickstart": 2_400}
# ChatML around a prompt with Qwen's default system message, and characters per token of its text.
TEMPLATE_TOKENS, CHARACTERS_PER_TOKEN = 20, 4
MODEL_VERSION = 1


def draw_synthetic(spec: SynthSource, say: Say) -> Harvest:
    """Prompts, lengths and scores; the same preset, n and seed give the same rows."""
    n = spec.n if spec.n is not None else PRESET_PROMPTS[spec.preset]
    say(f"drawing {n:,} synthetic prompts")
    seeds = np.random.SeedSequence(spec.seed).spawn(3)
    prompts, scores, lengths = (np.random.default_rng(seed) for seed in seeds)
    drawn = draw_prompts(n, prompts)
    provenance: dict[str, Any] = {
        "generator": f"rbx synthetic model {MODEL_VERSION}, see docs/datasets.md",
        "preset": spec.preset,
        "n": n,
        "seed": spec.seed,
        "input_tokens": f"estimated: {TEMPLATE_TOKENS} + characters / {CHARACTERS_PER_TOKEN}",
        "responses": "none: no model answered; lengths and scores are drawn",
    }
    score = draw_scores(drawn, SEEN_AFFINITY[spec.preset], scores)
    return Harvest(
        prompts=_prompts(drawn),
        responses=_responses(n, draw_lengths(drawn, lengths).ravel()),
        labels=_labels(n, score.ravel()),
        provenance=provenance,
        synthetic=True,
    )


def _keys(n: int) -> list[str]:
    return [f"synth-{row}" for row in range(n)]


def _prompts(drawn: Drawn) -> pa.Table:
    tokens = [TEMPLATE_TOKENS - (-len(text) // CHARACTERS_PER_TOKEN) for text in drawn.texts]
    n = len(drawn.texts)
    arrays = [
        pa.array(_keys(n), pa.string()),
        pa.array(drawn.texts, pa.string()),
        pa.array([f"synthetic/{FAMILIES[family].name}" for family in drawn.family], pa.string()),
        pa.nulls(n, pa.string()),
        pa.array(drawn.is_harmful),
        pa.array(tokens, pa.int32()),
        pa.nulls(n, pa.string()),
    ]
    return pa.Table.from_arrays(arrays, schema=HARVEST_PROMPTS)


def _constant(value: str, n: int) -> pa.Array:
    return pa.array([value] * n, pa.string())


def _pairs(n: int) -> tuple[pa.Array, pa.Array]:
    keys = pa.array(np.repeat(np.array(_keys(n), dtype=object), len(MODELS)), pa.string())
    return keys, pa.array(list(MODELS) * n, pa.string())


def _responses(n: int, tokens: np.ndarray[Any, np.dtype[np.int64]]) -> pa.Table:
    keys, models = _pairs(n)
    rows = len(tokens)
    arrays = [
        keys,
        models,
        pa.nulls(rows, pa.string()),
        pa.array(tokens, pa.int32()),
        pa.array(np.where(tokens >= MAX_TOKENS, "length", "stop"), pa.string()),
        _constant(digest(["synth", MODEL_VERSION]), rows),
        _constant("ok", rows),
    ]
    return pa.Table.from_arrays(arrays, schema=HARVEST_RESPONSES)


def _labels(n: int, scores: np.ndarray[Any, np.dtype[np.float64]]) -> pa.Table:
    keys, models = _pairs(n)
    rows = len(scores)
    arrays = [
        keys,
        models,
        _constant(DEFAULT_METRIC, rows),
        pa.array(scores),
        _constant("ok", rows),
        pa.nulls(rows, pa.string()),
        _constant(digest(["synth", MODEL_VERSION]), rows),
    ]
    return pa.Table.from_arrays(arrays, schema=HARVEST_LABELS)
