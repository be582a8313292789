"""What a policy's decisions depend on beside its own settings: part of the identity of its cells."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from rbx.config.plugin_policy import PluginPolicy
from rbx.config.policy import RouteBalancePolicy, RoutedPolicy, SinglePolicy
from rbx.heads.bundle import Bundle
from rbx.policy.plugin import plugin_identity
from rbx.sweep.prompts import PromptTable


def decided_by(policy: SinglePolicy, bundle: Bundle, prompts: PromptTable) -> dict[str, Any]:
    """A trained router's digest, a service's answers, a plug-in's distribution and sources; else nothing.

    ``policy`` among them stands for what the identity would hold of the policy otherwise.
    """
    if isinstance(policy, PluginPolicy):
        return {"plugin": plugin_identity(policy.name)}
    if isinstance(policy, RouteBalancePolicy):
        # Cells of earlier versions added d/b decode steps to the prior, or took the first of equal instances:
        # they are others.
        prior = {"prior": "tpot*L"} if policy.latency == "prior" else {}
        return {**prior, **({"matching": "ties by queue"} if policy.placement == "matching" else {})}
    if not isinstance(policy, RoutedPolicy):
        return {}
    if policy.trained_router is not None:
        return {"router": bundle.router_digest(policy.trained_router)}
    if policy.service is not None and policy.router_label in prompts.router_score:
        answers = np.ascontiguousarray(prompts.router_score[policy.router_label])
        # Where it answered, how long it was granted and whose model a category is: the answers hold it all.
        asked = policy.model_dump(mode="json", exclude={"service"})
        return {"router": hashlib.sha256(answers.tobytes()).hexdigest(), "policy": asked}
    return {}
