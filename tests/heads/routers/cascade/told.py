"""Answers that say how good they are, to those who read them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from rbx.heads.routers.task import RouterTask
from tests.heads.routers.planted import planted

GOOD, BAD = "The result follows from the theorem: the proof is complete.", "Sorry, no idea, banana weather."


def told(n: int = 240, seed: int = 0) -> RouterTask:
    """``planted``, with an answer of each model that is good where its label is one."""
    task = planted(n, seed=seed)
    answers = tuple(
        tuple(f"{GOOD if label else BAD} Case {row}." for label in labels)
        for row, labels in enumerate(task.score.tolist())
    )
    # The dearer the model, the better: with planted scores all are alike.
    score = task.score.copy()
    return replace(task, answers=answers, score=score, output_tokens=np.full(score.shape, 200.0))
