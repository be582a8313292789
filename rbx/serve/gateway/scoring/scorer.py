"""One scoring call: what the heads of a bundle and a router trained into it say of some texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rbx.heads.bundle import Bundle
from rbx.heads.routers.head import AskedPrompts, RouterHead

Floats = NDArray[np.float64]


class Foreseen(NamedTuple):
    """Of P prompts and M models, (P, M) each; ``router_score`` is the quality where no router was asked."""

    quality: Floats
    length_tokens: Floats
    router_score: Floats


def foresee(bundle: Bundle, texts: Sequence[str], router: RouterHead | None = None) -> Foreseen:
    """Ask ``bundle`` and ``router`` about P texts; it may be called from several threads at once."""
    embeddings = bundle.encode(texts)
    found = bundle.knn.predict(embeddings)
    score = found.quality if router is None else router.score(AskedPrompts(texts, embeddings))
    return Foreseen(found.quality, found.length_tokens, score)
