"""How near an answer's meaning is to its reference's, by the embeddings of both."""

from __future__ import annotations

import asyncio
import hashlib
import threading
from collections import OrderedDict
from collections.abc import Sequence

import numpy as np

from rbx.config.base import digest
from rbx.heads.encoder import Embeddings, Encoder
from rbx.label.answer import Answer, Verdict
from rbx.label.signals.reference import NO_REFERENCE

KEPT_REFERENCES = 4096  # 6 MB of MiniLM's vectors


class Similarity:
    """(cos + 1) / 2 of answer and reference: RouteBalance's ``reference_similarity``.

    The encoder reads the beginning of a long text only, MiniLM 256 word pieces. Theirs is 0 where there
    is no reference; here that score is missing.
    """

    batch = 64
    concurrency = 1  # an encoder uses the cores it is given by itself

    def __init__(self, name: str, encoder: Encoder) -> None:
        """``name`` is the metric's."""
        self.name = name
        self.digest = digest({"kind": "similarity", "version": 1, "encoder": encoder.digest})
        self._encoder = encoder
        self._known: OrderedDict[bytes, Embeddings] = OrderedDict()
        # One thread at a time: signals by source may ask beside the pipeline, and a call that was given up
        # goes on in its thread.
        self._busy = threading.Lock()

    async def score(self, answers: Sequence[Answer]) -> list[Verdict]:
        """One verdict an answer, in their order; the event loop goes on meanwhile."""
        return await asyncio.to_thread(self._score, answers)

    async def alive(self) -> bool:
        """Nobody else is asked."""
        return True

    async def close(self) -> None:
        """Nothing runs between calls."""

    def _score(self, answers: Sequence[Answer]) -> list[Verdict]:
        verdicts = [NO_REFERENCE] * len(answers)
        pairs = [
            (place, answer.response, answer.question.reference)
            for place, answer in enumerate(answers)
            if answer.question.reference and answer.question.reference.strip()
        ]
        if not pairs:
            return verdicts
        with self._busy:
            given = self._encoder.encode([response for _, response, _ in pairs])
            wanted = self._references([reference for _, _, reference in pairs])
        cosines = (given.astype(np.float64) * wanted).sum(axis=1)
        for (place, _, _), cosine in zip(pairs, cosines, strict=True):
            # Rounding can take a cosine just past its bounds.
            verdicts[place] = Verdict(min(1.0, max(0.0, (float(cosine) + 1) / 2)), "ok")
        return verdicts

    def _references(self, texts: Sequence[str]) -> Embeddings:
        keys = [hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest() for text in texts]
        new = {key: text for key, text in zip(keys, texts, strict=True) if key not in self._known}
        if new:
            self._known.update(zip(new, self._encoder.encode(list(new.values())), strict=True))
        for key in keys:
            self._known.move_to_end(key)
        rows: Embeddings = np.stack([self._known[key] for key in keys])
        while len(self._known) > KEPT_REFERENCES:
            self._known.popitem(last=False)
        return rows
