"""Plans of live sweeps over the small pool, without any file."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rbx.config.live import Live
from rbx.sweep.plan import Plan, expand_policies
from rbx.sweep.store import CellSpec
from rbx.sweep.workload import draw_workload
from tests.sweep.live.results import context


def live_plan(
    target: dict[str, Any], policies: list[dict[str, Any]], *, workload: dict[str, Any], **live: Any
) -> Plan:
    """A cell for each rate and policy, at seed 0."""
    found = context(workload=workload, policies=policies)
    changed = {"live": Live.model_validate({"target": target, **live})}
    found = replace(found, experiment=found.experiment.model_copy(update=changed))
    cells = []
    for rate in found.experiment.workload.rates_per_s:
        drawn = draw_workload(found.experiment.workload, found.prompts.input_tokens, rate, 0)
        for number, policy in enumerate(expand_policies(found.experiment, found.pool.models)):
            described, n = policy.model_dump(mode="json"), len(drawn.prompt)
            name = f"c{rate:g}-{number}"
            cells.append(CellSpec(name, policy.label, described, rate, None, 0, drawn.hash, n))
    manifest = {"name": "test", "grid": {"digest": "d"}, "bundle": {}, "pool": {}, "config": {}}
    return Plan(found, tuple(cells), manifest)
