"""A bundle's cascade, judged by the recorded answers: whom it asks next depends on what was said before."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rbx.heads.routers.asked import asked_router
from rbx.heads.routers.cascade.router import Cascade
from rbx.report.routers.allocation import Allocation, best_single
from rbx.report.routers.contender import CASCADE, policies_of
from rbx.report.routers.population import Material

# Mean budgets, in what the best single model's answer costs on the mean training prompt.
BUDGETS = (0.125, 0.25, 0.5, 1.0, 2.0)


def cascades(material: Material) -> tuple[Allocation, ...]:
    """The cascade at each budget: the answer that counts, and all that were paid on the way there.

    Where the best single model costs nothing there is no budget to share, and one cascade, of the best
    quality. None where the bundle has no cascade, or the grid no texts of answers.
    """
    return tuple(_cascades(material))


def _cascades(material: Material) -> Iterator[Allocation]:
    people, bundle = material.population, material.bundle
    head = bundle.routers.get(CASCADE)
    if not isinstance(head, Cascade) or people.answers is None:
        return
    told = head.answer_scores(people.asked.texts, people.answers)
    single_usd = float(np.nanmean(material.task.cost_usd[:, best_single(material.task)]))
    budgets = [float(f"{share * single_usd:.3g}") for share in BUDGETS]
    settings = {"mean_budget_usd": budgets} if single_usd > 0 else {"cost_weight_per_usd": [0.0]}
    for policy in policies_of(bundle, CASCADE, **settings):
        asked = asked_router(bundle, policy, material.pool)
        assert isinstance(asked, Cascade)
        ends = asked.planned.last_asked(told)
        yield Allocation(
            policy.router_label,
            "router",
            np.eye(len(people.models))[ends],
            asked=asked.planned.asked(told).astype(np.float64),
        )
