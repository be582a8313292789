"""What routers prefer for a sweep's prompts, where it is known before any request arrives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from rbx.config.experiment import Experiment
from rbx.config.plugin_policy import PluginPolicy
from rbx.config.policy import RoutedPolicy, SinglePolicy
from rbx.config.pool import Pool
from rbx.errors import ConfigError
from rbx.grid.schema import GridView
from rbx.heads.bundle import Bundle
from rbx.policy.plugin import plugin_identity
from rbx.policy.request_table import Floats, Ints
from rbx.sweep.classified import classifier_scores
from rbx.sweep.oracle import oracle_scores
from rbx.sweep.prediction import router_scores
from rbx.sweep.prompts import PromptTable


class Opinions(NamedTuple):
    """``scores`` (P, M) by the router's label; ``noted`` is for the manifest."""

    scores: Mapping[str, Floats]
    noted: Mapping[str, Any]


def router_opinions(
    experiment: Experiment,
    prompts: PromptTable,
    bundle: Bundle,
    view: GridView,
    rows: Ints,
    policies: Sequence[SinglePolicy],
    pool: Pool,
) -> Opinions:
    """Of trained routers, of services, and of the oracle, which is told the labels of ``prompts``.

    Raises ``BundleError`` where a router was not trained, ``ServerError`` where a service does not answer.
    """
    plugins = {p.name: plugin_identity(p.name) for p in policies if isinstance(p, PluginPolicy)}
    noted: dict[str, Any] = {"plugins": plugins} if plugins else {}
    scores = dict(router_scores(bundle, view, rows, policies, pool))
    for policy in policies:
        if isinstance(policy, RoutedPolicy) and policy.is_reference:
            cap, weight = experiment.workload.max_output_tokens, policy.cost_weight_per_usd or 0.0
            scores[policy.router_label] = oracle_scores(prompts, pool, cap, weight)
    if experiment.engine == "live":
        _check_live(policies)
        return Opinions(scores, noted)
    classified, told = classifier_scores(bundle, view, rows, policies, pool)
    return Opinions({**scores, **classified}, {**noted, **({"classifiers": told} if told else {})})


def _check_live(policies: Sequence[SinglePolicy]) -> None:
    """The gateway asks the service itself, and has no labels to learn a map from."""
    for policy in policies:
        if isinstance(policy, RoutedPolicy) and policy.service is not None and policy.service.models is None:
            raise ConfigError(
                f"policy {policy.label}: nobody learns the model of each category in a live sweep; give "
                "models, such as the map that a simulated sweep has put into its manifest (classifiers)"
            )
