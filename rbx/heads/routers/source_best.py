"""Per-source best: each data set's prompts go to the model that answered that data set best in training.

What a person would do who knows where a prompt comes from: a reference for routers that must find it out.
A prompt from a data set that training did not see goes to the best single model.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rbx.errors import BundleError
from rbx.heads.routers.head import Arrays, AskedPrompts
from rbx.heads.routers.labelled_means import by_source, labelled_means
from rbx.heads.routers.task import RouterTask

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class SourceBest:
    """S sources, M models; means over the labelled training prompts, the last row over all sources.

    ``quality`` and ``output_tokens`` (S + 1, M), ``input_tokens`` (S + 1,); prices (M,) are per token and may
    change without training again. A source without a label of a model holds that model's mean over all.
    ``cost_weight_per_usd`` is what quality one USD is worth; 0 asks for quality alone.
    """

    models: tuple[str, ...]
    sources: tuple[str, ...]
    quality: Floats
    input_tokens: Floats
    output_tokens: Floats
    price_in_usd: Floats
    price_out_usd: Floats
    cost_weight_per_usd: float = 0.0

    @property
    def described(self) -> dict[str, Any]:
        """See ``RouterHead``; ``best`` is the choice of each source at no cost weight."""
        best = self.quality.argmax(axis=1).tolist()
        return {
            "models": list(self.models),
            "sources": list(self.sources),
            "best": dict(zip(self.sources, (self.models[m] for m in best[:-1]), strict=True)),
            "best_single": self.models[best[-1]],
        }

    @property
    def arrays(self) -> Arrays:
        """See ``RouterHead``."""
        names = ("quality", "input_tokens", "output_tokens", "price_in_usd", "price_out_usd")
        return {name: getattr(self, name) for name in names}

    def weighing(self, cost_weight_per_usd: float, price_in_usd: Floats, price_out_usd: Floats) -> SourceBest:
        """The same means, at prices per token (M,), less what the answer costs."""
        return replace(
            self,
            cost_weight_per_usd=cost_weight_per_usd,
            price_in_usd=price_in_usd,
            price_out_usd=price_out_usd,
        )

    def score(self, prompts: AskedPrompts) -> Floats:
        """See ``RouterHead``; raises ``BundleError`` where nobody tells where the prompts are from."""
        if prompts.sources is None:
            raise BundleError("router source-best: nobody tells which data set a prompt is from")
        row_of = {source: row for row, source in enumerate(self.sources)}
        rows = [row_of.get(source, len(self.sources)) for source in prompts.sources]
        cost_usd = self.input_tokens[:, None] * self.price_in_usd + self.output_tokens * self.price_out_usd
        return np.asarray((self.quality - self.cost_weight_per_usd * cost_usd)[rows])


def train(task: RouterTask, seed: int) -> SourceBest:
    """Means by source; nothing is drawn, so ``seed`` has no say."""
    sources, member = by_source(task.sources)
    member = np.hstack([member, np.ones((len(member), 1))])
    tokens_in = task.input_tokens[:, None].astype(np.float64)
    return SourceBest(
        models=task.models,
        sources=sources,
        quality=labelled_means(member, task.score),
        input_tokens=labelled_means(member, tokens_in)[:, 0],
        output_tokens=labelled_means(member, task.output_tokens),
        price_in_usd=task.price_in_usd,
        price_out_usd=task.price_out_usd,
    )


def restore(described: dict[str, Any], arrays: Arrays) -> SourceBest:
    """The head of what was stored."""
    return SourceBest(
        tuple(described["models"]),
        tuple(described["sources"]),
        arrays["quality"],
        arrays["input_tokens"],
        arrays["output_tokens"],
        arrays["price_in_usd"],
        arrays["price_out_usd"],
    )
