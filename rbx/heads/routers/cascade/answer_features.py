"""What an answer's score is made from: the prompt, the answer, and how long it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from rbx.heads.encoder import Embeddings

Floats = NDArray[np.float64]

# Which parts are looked at is chosen on held-out prompts.
Parts = Literal["answer", "prompt and answer", "prompt, answer and product"]
ALL_PARTS: tuple[Parts, ...] = get_args(Parts)
SIZES = 3


def answer_features(parts: Parts, prompts: Embeddings, answers: Embeddings, texts: Sequence[str]) -> Floats:
    """(N, F) of N answers ``texts`` with embeddings (N, dim), to prompts with embeddings (N, dim)."""
    looked_at = {
        "answer": (answers,),
        "prompt and answer": (answers, prompts),
        "prompt, answer and product": (answers, prompts, answers * prompts * np.sqrt(answers.shape[1])),
    }[parts]
    return np.concatenate([_sizes(texts), *looked_at], axis=1, dtype=np.float64)


def _sizes(texts: Sequence[str]) -> Floats:
    """Characters and lines on a logarithmic scale, and whether anything was said, (N, ``SIZES``).

    Scaled to about the size of a unit embedding's numbers, since all features share one penalty.
    """
    rows = [(np.log1p(len(text)), np.log1p(text.count("\n")), bool(text.strip())) for text in texts]
    return np.asarray(rows, dtype=np.float64).reshape(-1, SIZES) / 10.0
