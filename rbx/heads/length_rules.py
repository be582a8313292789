"""How BEA guesses the length of running answers with what a bundle holds."""

from __future__ import annotations

from rbx.heads.bea.lengths import LengthRule
from rbx.heads.bundle import Bundle


def length_rules(bundle: Bundle, models: tuple[str, ...]) -> tuple[LengthRule, ...]:
    """One rule for each of ``models``.

    The prediction, and the survivors' median for an answer that has outlived it; ``docs/bea.md`` has
    the comparison that speaks for this order.
    """
    return tuple(
        LengthRule(bundle.survival[bundle.models.index(model)], trust_predictions=True) for model in models
    )
