"""The scoring stage of a policy, as it is deployed."""

from __future__ import annotations

from collections.abc import Callable

from rbx.config.deployment import Sidecar
from rbx.config.policy import RoutedPolicy, SinglePolicy
from rbx.config.pool import Pool
from rbx.errors import ConfigError
from rbx.heads.bundle import Bundle
from rbx.heads.routers.head import RouterHead
from rbx.serve.gateway.scoring.local_stage import LocalStage
from rbx.serve.gateway.scoring.sidecar_process import SidecarProcess
from rbx.serve.gateway.scoring.sidecar_stage import SidecarStage
from rbx.serve.gateway.scoring.stage import ScoringStage


def build_stage(
    single: SinglePolicy,
    bundle: Bundle | None,
    pool: Pool,
    router: RouterHead | None,
    clock: Callable[[], float],
    within_s: float,
) -> ScoringStage | None:
    """None where prompts are scored with their batch; raises ``ConfigError`` where nobody could score."""
    queue = single.deployment.queue if isinstance(single, RoutedPolicy) else None
    if queue is None or not isinstance(single, RoutedPolicy):
        return None
    if bundle is None:
        raise ConfigError(f"policy {single.label} scores prompts; give a bundle (--bundle)")
    if isinstance(single.deployment, Sidecar):
        process = SidecarProcess(bundle, pool, single, queue, within_s)
        return SidecarStage(process, len(pool.models), clock, queue.window_s + within_s)
    return LocalStage(bundle, router, queue, clock, within_s)
