"""The cascade as a bundle keeps it: the answer scorer, and what chains are chosen by.

The chain itself is chosen when a policy asks, from the training prompts' answers, for its budget or trade-off
at the pool's prices: neither needs training again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rbx.errors import BundleError
from rbx.grid.answers import Answers
from rbx.heads.embedding_cache import encode_cached
from rbx.heads.encoder import Encoder
from rbx.heads.routers.cascade.chain import Chain, Tried, best_tradeoff, best_within
from rbx.heads.routers.cascade.scorer import AnswerScorer
from rbx.heads.routers.head import Arrays, AskedPrompts
from rbx.heads.static import load_static

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Cascade:
    """N training prompts, M models: ``answer_score`` (each by a scorer that did not see it), ``labels`` and
    ``output_tokens`` (N, M), ``input_tokens`` (N,); prices (M,) per token.

    Answers are embedded by the static encoder, whatever the bundle's: scoring one must cost little beside
    making it. ``errors`` are the scorer's, left out, by what it looks at.
    """

    models: tuple[str, ...]
    scorer: AnswerScorer
    answer_score: Floats
    labels: Floats
    input_tokens: Floats
    output_tokens: Floats
    price_in_usd: Floats
    price_out_usd: Floats
    encoder_digest: str
    errors: dict[str, float]
    chain: Chain | None = None

    @property
    def described(self) -> dict[str, Any]:
        """See ``RouterHead``."""
        return {
            "models": list(self.models),
            "parts": self.scorer.parts,
            "left_out_squared_error": self.errors,
            "encoder": "static",
            "encoder_digest": self.encoder_digest,
        }

    @property
    def arrays(self) -> Arrays:
        """See ``RouterHead``."""
        names = ("answer_score", "labels", "input_tokens", "output_tokens", "price_in_usd", "price_out_usd")
        kept = {name: getattr(self, name) for name in names}
        return {**kept, "weights": self.scorer.weights, "offset": self.scorer.offset}

    def priced(self, price_in_usd: Floats, price_out_usd: Floats) -> Cascade:
        """The same answers at other prices per token, (M,) each."""
        return replace(self, price_in_usd=price_in_usd, price_out_usd=price_out_usd, chain=None)

    def within(self, mean_budget_usd: float) -> Cascade:
        """With the best chain that costs at most this much a request on average."""
        return replace(self, chain=best_within(self._tried, mean_budget_usd))

    def trading(self, cost_weight_per_usd: float) -> Cascade:
        """With the best chain where one USD is worth this much quality."""
        return replace(self, chain=best_tradeoff(self._tried, cost_weight_per_usd))

    @cached_property
    def planned(self) -> Chain:
        """The chain; unless one was asked for, the best that costs no more than the best single model."""
        if self.chain is not None:
            return self.chain
        known = self._tried.complete()
        best = int(known.score.mean(axis=0).argmax())
        return best_within(known, float(known.cost_usd[:, best].mean()))

    def score(self, prompts: AskedPrompts) -> Floats:
        """Models in the order of asking, alike for all prompts: no answer is there; see ``RouterHead``."""
        order = np.full(len(self.models), -float(len(self.models)))
        order[list(self.planned.models)] = -np.arange(len(self.planned.models))
        return np.tile(order, (len(prompts.texts), 1))

    def answer_scores(self, prompts: Sequence[str], answers: Answers) -> Floats:
        """g (P, M) of P prompts' answers, P × M texts, NaN where there is none; embeddings are kept."""
        of_prompts = encode_cached(self.encoder, prompts)
        found = np.full((len(prompts), len(self.models)), np.nan)
        for model, said in enumerate(zip(*answers, strict=True)):
            rows = np.flatnonzero([text is not None for text in said])
            texts = [said[row] or "" for row in rows.tolist()]
            of_answers = encode_cached(self.encoder, texts)
            found[rows, model] = self.scorer.score(model, of_prompts[rows], of_answers, texts)
        return found

    def answer_score_of(self, prompt: str, answer: str, model: int) -> float:
        """g of one answer of live traffic: nothing is kept."""
        vectors = self.encoder.encode([prompt, answer])
        return float(self.scorer.score(model, vectors[:1], vectors[1:], [answer])[0])

    @cached_property
    def encoder(self) -> Encoder:
        """The static encoder; raises ``BundleError`` where it is not the one trained with."""
        encoder = load_static()
        if encoder.digest != self.encoder_digest:
            raise BundleError(
                f"router cascade: trained with a static encoder of digest {self.encoder_digest[:16]}…, the "
                f"one here has {encoder.digest[:16]}…; train it again"
            )
        return encoder

    @property
    def _tried(self) -> Tried:
        cost = self.input_tokens[:, None] * self.price_in_usd + self.output_tokens * self.price_out_usd
        return Tried(self.answer_score, self.labels, cost)


def restore(described: dict[str, Any], arrays: Arrays) -> Cascade:
    """The head of what was stored."""
    return Cascade(
        models=tuple(described["models"]),
        scorer=AnswerScorer(described["parts"], arrays["weights"], arrays["offset"]),
        answer_score=arrays["answer_score"],
        labels=arrays["labels"],
        input_tokens=arrays["input_tokens"],
        output_tokens=arrays["output_tokens"],
        price_in_usd=arrays["price_in_usd"],
        price_out_usd=arrays["price_out_usd"],
        encoder_digest=described["encoder_digest"],
        errors=described["left_out_squared_error"],
    )
