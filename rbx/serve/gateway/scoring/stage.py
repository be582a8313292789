"""What a decider asks of the scoring before its batches, however it is deployed."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class ScoredPrompt(NamedTuple):
    """What is foreseen of one prompt, (M,) each, when its scoring call began and when the answer was here."""

    quality: Floats
    length_tokens: Floats
    router_score: Floats
    began_s: float
    back_s: float


class ScoringStage(Protocol):
    """Scores prompts one by one, in calls of its own making; made off the loop, used within it."""

    async def start(self) -> None:
        """Get ready to score; raises ``RbxError`` where that can't be."""
        ...

    async def score(self, text: str) -> ScoredPrompt | None:
        """None, with a line in the log, if it fails, takes too long or is gone: never a wait without end."""
        ...

    async def close(self) -> None:
        """Let go of everything; whoever waits gets None."""
        ...
