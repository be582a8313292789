"""What a scheduler decided each time it was asked for a batch, and the first difference between two."""

from __future__ import annotations

from dataclasses import dataclass, field

from rbx.config.pool import Tier
from tests.engine.oracle import Batch, Instance


@dataclass(frozen=True)
class Formation:
    """One batch and the queues it leaves behind; requests by slot, in the scheduler's own order."""

    at_s: float
    tokens: tuple[tuple[int, int], ...]  # (slot, scheduled tokens)
    running: tuple[int, ...]
    waiting: tuple[int, ...]
    free_blocks: int


@dataclass(eq=False)
class RecordedInstance(Instance):
    """The plain reading of vLLM's scheduler, with every formation kept."""

    formations: list[Formation] = field(default_factory=list)

    def schedule(self, now_s: float) -> Batch:
        batch = super().schedule(now_s)
        self.formations.append(
            Formation(
                now_s,
                tuple((share.request.slot, share.tokens) for share in batch.shares),
                tuple(request.slot for request in self.running),
                tuple(request.slot for request in self.waiting),
                self.free,
            )
        )
        return batch


def first_difference(tier: Tier, vllm: list[Formation], plain: list[Formation]) -> str | None:
    """Where two series of non-empty batches part, in words; None if they are the same.

    Empty batches take no time and vLLM forms some more of them, to flush the ids of finished requests.
    """
    theirs = [formation for formation in vllm if formation.tokens]
    ours = [formation for formation in plain if formation.tokens]
    for number, (there, here) in enumerate(zip(theirs, ours, strict=False), start=1):
        if there != here:
            before = theirs[number - 2] if number > 1 else None
            return (
                f"batch {number} under {tier.limits}:\n  before {before}\n  vLLM   {there}\n  plain  {here}"
            )
    if len(theirs) != len(ours):
        return f"vLLM formed {len(theirs)} batches, the plain reading {len(ours)}, under {tier.limits}"
    return None
