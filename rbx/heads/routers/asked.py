"""A bundle's router as a policy asks for it: with its settings, at the pool's prices."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rbx.config.policy import RoutedPolicy
from rbx.config.pool import Pool
from rbx.errors import BundleError
from rbx.grid.schema import GridView
from rbx.heads.bundle import Bundle
from rbx.heads.encoder import Embeddings
from rbx.heads.routers.avengers_pro import AvengersPro
from rbx.heads.routers.best_route.router import BestRoute
from rbx.heads.routers.best_route_frozen import BestRouteFrozen
from rbx.heads.routers.cascade.router import Cascade
from rbx.heads.routers.head import AskedPrompts, RouterHead
from rbx.heads.routers.matrix_factorisation import MatrixFactorisation
from rbx.heads.routers.prices import model_prices_usd
from rbx.heads.routers.semantic_router import SemanticRouter
from rbx.heads.routers.source_best import SourceBest

Ints = NDArray[np.int64]


def asked_prompts(view: GridView, embeddings: Embeddings, rows: Ints) -> AskedPrompts:
    """``rows`` of a grid, whose prompts have ``embeddings`` (grid's prompts, dim)."""
    chosen = rows.tolist()
    return AskedPrompts(
        tuple(view.prompts[row] for row in chosen),
        embeddings[rows],
        tuple(view.sources[row] for row in chosen),
    )


def asked_router(bundle: Bundle, policy: RoutedPolicy, pool: Pool) -> RouterHead:
    """The router that ``policy`` routes by; raises ``BundleError`` where the bundle does not have it."""
    assert policy.trained_router is not None
    head = bundle.router(policy.trained_router)
    if head.models != pool.models:
        raise BundleError(f"router {policy.router}: trained for other models than pool {pool.name} serves")
    if isinstance(head, AvengersPro) and policy.performance_weight is not None:
        return head.priced(*model_prices_usd(pool)).weighing(policy.performance_weight)
    if isinstance(head, SourceBest) and policy.cost_weight_per_usd is not None:
        return head.weighing(policy.cost_weight_per_usd, *model_prices_usd(pool))
    if isinstance(head, SemanticRouter) and policy.threshold is not None:
        return head.above(policy.threshold)
    if isinstance(head, MatrixFactorisation) and policy.threshold is not None:
        return head.between(policy.threshold)
    if isinstance(head, (BestRoute, BestRouteFrozen)) and policy.threshold is not None:
        return head.sure_from(policy.threshold, policy.fallback)
    if isinstance(head, Cascade):
        return _planned(head.priced(*model_prices_usd(pool)), policy)
    return head


def _planned(cascade: Cascade, policy: RoutedPolicy) -> Cascade:
    if policy.mean_budget_usd is not None:
        return cascade.within(policy.mean_budget_usd)
    if policy.cost_weight_per_usd is not None:
        return cascade.trading(policy.cost_weight_per_usd)
    return cascade
