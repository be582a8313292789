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
from rbx.heads.routers.cascade.chain import Chain
from rbx.policy.plugin import plugin_identity
from rbx.policy.request_table import Floats, Ints
from rbx.sweep.cascades import plan_cascades
from rbx.sweep.classified import classifier_scores
from rbx.sweep.oracle import oracle_scores
from rbx.sweep.prediction import router_scores
from rbx.sweep.prompts import PromptTable


class Opinions(NamedTuple):
    """``scores`` (P, M) by the router's label; ``noted`` is for the manifest.

    Those of a cascade are its answers' scores, and ``chains`` tells whom it asks.
    """

    scores: Mapping[str, Floats]
    noted: Mapping[str, Any]
    chains: Mapping[str, Chain]


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
    cascades = plan_cascades(experiment, bundle, view, rows, policies, pool)
    scores.update(cascades.answer_scores)
    if cascades.chains:
        noted["cascades"] = cascades.noted(pool.models)
    for policy in policies:
        if isinstance(policy, RoutedPolicy) and policy.sees_labels:
            cap, weight = experiment.workload.max_output_tokens, policy.cost_weight_per_usd or 0.0
            scores[policy.router_label] = oracle_scores(prompts, pool, cap, weight)
    if experiment.engine == "live":
        _check_live(policies)
        return Opinions(scores, noted, cascades.chains)
    classified, told = classifier_scores(bundle, view, rows, policies, pool)
    if told:
        noted["classifiers"] = told
    return Opinions({**scores, **classified}, noted, cascades.chains)


def _check_live(policies: Sequence[SinglePolicy]) -> None:
    """The gateway asks the service itself, and has no labels to learn a map from."""
    for policy in policies:
        if isinstance(policy, RoutedPolicy) and policy.service is not None and policy.service.models is None:
            raise ConfigError(
                f"policy {policy.label}: nobody learns the model of each category in a live sweep; give "
                "models, such as the map that a simulated sweep has put into its manifest (classifiers)"
            )
