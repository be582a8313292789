"""What trained routers learn from: training prompts with their labels, and what each answer cost."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from rbx.errors import BundleError
from rbx.grid.answers import Answers
from rbx.heads.encoder import Embeddings
from rbx.heads.routers.head import AskedPrompts

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

FOLDS = 5


@dataclass(frozen=True)
class RouterTask:
    """N training prompts with the data sets they are from, M models; NaN where a label is missing.

    ``embeddings`` (N, dim) are unit vectors of the bundle's encoder; ``score`` and ``output_tokens`` (N, M);
    ``input_tokens`` (N,); ``price_in_usd`` and ``price_out_usd`` (M,) are per token. ``encoder_path`` is what
    a router that fine-tunes an encoder starts from; None leaves it to the router. ``ties_to`` is what labels
    of "the best model" name where it is one of several; None: the cheapest. ``answers`` N × M are read
    for those who learn from texts; None where nobody asked for them.
    """

    models: tuple[str, ...]
    texts: tuple[str, ...]
    sources: tuple[str, ...]
    embeddings: Embeddings
    score: Floats
    input_tokens: Ints
    output_tokens: Floats
    price_in_usd: Floats
    price_out_usd: Floats
    encoder_path: str | None = None
    ties_to: str | None = None
    answers: Answers | None = None

    def __post_init__(self) -> None:
        """Raises ``BundleError`` where nothing could be learnt."""
        n, m = self.score.shape
        if n < FOLDS:
            raise BundleError(f"{n} training prompts are too few for a router; at least {FOLDS} are needed")
        unlabelled = [self.models[j] for j in range(m) if np.isnan(self.score[:, j]).all()]
        if unlabelled:
            raise BundleError(f"no training prompt has a score for {', '.join(unlabelled)}")

    @property
    def prompts(self) -> AskedPrompts:
        """The prompts as they are asked about."""
        return AskedPrompts(self.texts, self.embeddings, self.sources)

    @property
    def n_models(self) -> int:
        """M."""
        return len(self.models)

    @cached_property
    def cost_usd(self) -> Floats:
        """What each answer cost, (N, M); NaN where its length is unknown."""
        tokens_in = self.input_tokens[:, None] * self.price_in_usd[None, :]
        return np.asarray(tokens_in + self.output_tokens * self.price_out_usd[None, :])

    @cached_property
    def mean_score(self) -> Floats:
        """Of each model over its labelled prompts, (M,)."""
        return np.asarray(np.nanmean(self.score, axis=0))

    @cached_property
    def cheapest_first(self) -> Ints:
        """Models by the mean cost of an answer, (M,)."""
        return np.argsort(np.nanmean(self.cost_usd, axis=0), kind="stable").astype(np.int64)

    def rows(self, keep: Ints) -> RouterTask:
        """The task of some prompts alone."""
        return replace(
            self,
            texts=tuple(self.texts[row] for row in keep.tolist()),
            sources=tuple(self.sources[row] for row in keep.tolist()),
            embeddings=self.embeddings[keep],
            score=self.score[keep],
            input_tokens=self.input_tokens[keep],
            output_tokens=self.output_tokens[keep],
            answers=None if self.answers is None else tuple(self.answers[row] for row in keep.tolist()),
        )

    def folds(self, rng: np.random.Generator) -> Iterator[tuple[Ints, Ints]]:
        """``FOLDS`` pairs of rows: to fit on, and held out."""
        parts = np.array_split(rng.permutation(len(self.texts)), FOLDS)
        for k, held in enumerate(parts):
            kept = np.concatenate(parts[:k] + parts[k + 1 :])
            yield np.sort(kept), np.sort(held)
