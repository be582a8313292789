"""The router that a policy asks about each prompt."""

from __future__ import annotations

from rbx.config.policy import RoutedPolicy, SinglePolicy
from rbx.config.pool import Pool
from rbx.errors import BundleError, ConfigError
from rbx.heads.bundle import Bundle
from rbx.heads.routers.asked import asked_router
from rbx.heads.routers.head import RouterHead
from rbx.serve.classifier.router import classifier_router


def asked_by(single: SinglePolicy, bundle: Bundle | None, pool: Pool) -> RouterHead | None:
    """What the policy asks about each prompt, if anything; raises ``ConfigError`` where it is not there."""
    if not isinstance(single, RoutedPolicy) or not single.goes_by_score:
        return None
    if bundle is None:
        raise ConfigError(f"policy {single.label} asks a trained router; give a bundle (--bundle)")
    if single.service is not None:
        return classifier_router(single, pool.models, bundle.meta.statistics)
    try:
        return asked_router(bundle, single, pool)
    except BundleError as error:
        raise ConfigError(f"policy {single.label}: {error}") from None


def scoring_identity(single: SinglePolicy, bundle: Bundle) -> str:
    """Digests of all that decides what is foreseen under a policy, as far as the bundle holds it."""
    trained = single.trained_router if isinstance(single, RoutedPolicy) else None
    return bundle.digest if trained is None else f"{bundle.digest}-{bundle.router_digest(trained)}"
