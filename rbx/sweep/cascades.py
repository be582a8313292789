"""Whom a sweep's cascades ask, and what the scorer says of each answer in the grid."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from rbx.config.experiment import Experiment
from rbx.config.policy import RoutedPolicy, SinglePolicy
from rbx.config.pool import Pool
from rbx.errors import DatasetError
from rbx.grid.answers import read_answers
from rbx.grid.schema import GridView
from rbx.heads.bundle import Bundle
from rbx.heads.routers.asked import asked_router
from rbx.heads.routers.cascade.chain import Chain
from rbx.heads.routers.cascade.router import Cascade
from rbx.policy.request_table import Floats, Ints
from rbx.sweep.cascade_run import check_telemetry


class PlannedCascades(NamedTuple):
    """Each by the router's label: whom it asks in turn, and g of every answer in the grid (P, M).

    An answer's score is looked at once a simulated model has given that answer, never before.
    """

    chains: Mapping[str, Chain]
    answer_scores: Mapping[str, Floats]

    def noted(self, models: tuple[str, ...]) -> dict[str, Any]:
        """The chains for a reader of the manifest, and for ``chains_of``."""
        return {
            label: {**chain.as_json(), "asked": [models[model] for model in chain.models]}
            for label, chain in self.chains.items()
        }


def chains_of(noted: Mapping[str, Any]) -> dict[str, Chain]:
    """What ``noted`` told."""
    return {label: Chain.of(data) for label, data in noted.items()}


def plan_cascades(
    experiment: Experiment,
    bundle: Bundle,
    view: GridView,
    rows: Ints,
    policies: Iterable[SinglePolicy],
    pool: Pool,
) -> PlannedCascades:
    """Learn each cascade's chain and score the answers to ``rows`` of the grid.

    Raises ``BundleError`` where none was trained, ``DatasetError`` where an answer that a chain may ask for
    has no text, and ``ConfigError`` where telemetry comes late in a way that can't be simulated.
    """
    asking = {p.router_label: p for p in policies if isinstance(p, RoutedPolicy) and p.router == "cascade"}
    if not asking:
        return PlannedCascades({}, {})
    for policy in asking.values():
        check_telemetry(experiment.scheduler.telemetry, policy.label)
    heads = {label: _cascade(bundle, policy, pool) for label, policy in asking.items()}
    answers = read_answers(experiment.grid, view, pool.models)
    told = tuple(answers[row] for row in rows.tolist())
    # One scorer stands behind all of them.
    score = next(iter(heads.values())).answer_scores([view.prompts[row] for row in rows.tolist()], told)
    for label, head in heads.items():
        _check_texts(label, head, score, view, rows)
    known = np.where(np.isnan(score), 0.0, score)  # of models that no chain asks
    return PlannedCascades(
        {label: head.planned for label, head in heads.items()}, dict.fromkeys(heads, known)
    )


def _cascade(bundle: Bundle, policy: RoutedPolicy, pool: Pool) -> Cascade:
    head = asked_router(bundle, policy, pool)
    assert isinstance(head, Cascade)
    return head


def _check_texts(label: str, head: Cascade, score: Floats, view: GridView, rows: Ints) -> None:
    for model in head.planned.models[:-1]:
        lost = np.flatnonzero(np.isnan(score[:, model]))
        if len(lost):
            raise DatasetError(
                f"grid {view.name}: prompt {view.prompt_ids[rows[lost[0]]]} has no text of "
                f"{head.models[model]}'s answer ({len(lost)} such prompts), and {label} scores it; build the "
                "grid with answers"
            )
