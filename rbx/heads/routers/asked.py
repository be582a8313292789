"""A bundle's router as a policy asks for it: with its settings, at the pool's prices."""

from __future__ import annotations

from rbx.config.policy import RoutedPolicy
from rbx.config.pool import Pool
from rbx.errors import BundleError
from rbx.heads.bundle import Bundle
from rbx.heads.routers.avengers_pro import AvengersPro
from rbx.heads.routers.head import RouterHead
from rbx.heads.routers.matrix_factorisation import MatrixFactorisation
from rbx.heads.routers.prices import model_prices_usd


def asked_router(bundle: Bundle, policy: RoutedPolicy, pool: Pool) -> RouterHead:
    """The router that ``policy`` routes by; raises ``BundleError`` where the bundle does not have it."""
    assert policy.trained_router is not None
    head = bundle.router(policy.trained_router)
    if head.models != pool.models:
        raise BundleError(f"router {policy.router}: trained for other models than pool {pool.name} serves")
    if isinstance(head, AvengersPro) and policy.performance_weight is not None:
        return head.priced(*model_prices_usd(pool)).weighing(policy.performance_weight)
    if isinstance(head, MatrixFactorisation) and policy.threshold is not None:
        return head.between(policy.threshold)
    return head
