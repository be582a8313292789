"""Scenes served by vLLM's engine core with the publishing scheduler, and what it published."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from rbx.engine import instance_columns as inst
from rbx.engine import request_columns as req
from rbx.engine import snapshot_columns as snap
from rbx.engine.instance_profile import InstanceProfile
from rbx.engine.instance_snapshot import InstanceSnapshot
from rbx.engine.simulator import EngineSim
from rbx.engine.snapshot_export import export_snapshot
from rbx.serve.observe.step_ring import StepRing
from rbx.serve.state.published import PublishedState
from tests.engine.scenes import GRID_S
from tests.vllm.truth import Scene
from tests.vllm.virtual_core import VirtualCore
from tests.vllm.virtual_executor import Sequence

SCHEDULER = "rbx.serve.plugin.scheduler.PublishingScheduler"


@dataclass(frozen=True)
class Publication:
    """What a reader found in the file right after a decision."""

    formed: bool  # after a batch was formed, else after a step ended
    taken_in_s: float  # requests that arrived later are not known to the scheduler yet
    snapshot: InstanceSnapshot


class PublishingCore(VirtualCore):
    """A virtual core whose scheduler publishes with virtual stamps; every publication is read back."""

    def __init__(self, case: Scene, sequences: list[Sequence]) -> None:
        super().__init__(case.tier, sequences, runner_v2=case.runner_v2, scheduler_cls=SCHEDULER)
        self.publications: list[Publication] = []
        publisher = self.scheduler.publisher
        publisher.clock = lambda: self.executor.now_s
        self.state = PublishedState(publisher.file.path, InstanceProfile.of(case.tier).coefficients)
        self.ring = StepRing(publisher.file.path)
        self._version, self._taken_in_s = publisher.version, 0.0
        schedule, update = self.scheduler.schedule, self.scheduler.update_from_output

        def scheduled(*arguments: Any) -> Any:
            self._taken_in_s = self.executor.now_s
            output = schedule(*arguments)
            self._read(formed=True)
            return output

        def updated(*arguments: Any) -> Any:
            outputs = update(*arguments)
            self._read(formed=False)
            return outputs

        self.scheduler.schedule, self.scheduler.update_from_output = scheduled, updated

    @classmethod
    def of(cls, case: Scene) -> PublishingCore:
        """The core that will serve a scene."""
        columns = (case.workload.at_s, case.workload.prompt, case.workload.output)
        rows = zip(*(column.tolist() for column in columns), case.max_tokens, strict=True)
        return cls(case, [Sequence(slot, *row) for slot, row in enumerate(rows)])

    def _read(self, *, formed: bool) -> None:
        publisher = self.scheduler.publisher
        version = publisher.version
        if version > self._version and not publisher.errors:
            snapshot = self.state.read(self.executor.now_s)
            self.publications.append(Publication(formed, self._taken_in_s, snapshot))
        self._version = version


def publish(case: Scene) -> PublishingCore:
    """Serve a scene; the file is gone afterwards."""
    core = PublishingCore.of(case)
    try:
        core.run()
    finally:
        core.scheduler.publisher.file.close()
    return core


def first_wrong(case: Scene, core: PublishingCore) -> str | None:
    """The first publication that is not the state of rbx's engine at its moment, in words; None if none."""
    workload = case.workload
    engine = EngineSim([case.tier], len(workload.at_s))
    columns = (workload.instance, workload.at_s, workload.prompt, workload.output, workload.predicted)
    engine.submit_many(*columns, case.stops_by_length)
    profile = InstanceProfile.of(case.tier)
    for number, publication in enumerate(core.publications):
        # Batches due at a moment are formed once time moves on; nothing arrives within a quarter grid step.
        at_s = publication.snapshot.stamp_s + publication.formed * GRID_S / 4
        engine.advance(at_s)
        expected = _expected(case, export_snapshot(engine, 0, profile), engine, publication)
        found = _difference(publication.snapshot, expected)
        if found:
            return (
                f"publication {number} at {publication.snapshot.stamp_s} s under {case.tier.limits}: {found}"
            )
    return None


def _expected(
    case: Scene, exact: InstanceSnapshot, engine: EngineSim, publication: Publication
) -> dict[str, Any]:
    """The engine's own export, less what a scheduler can't know.

    It has no predictions; arrivals show once the core has taken them in, between two steps; and it
    knows the cap of answers that end before it too, where the simulator takes the context limit.
    """
    requests, slots = exact.requests.copy(), _slots(engine, exact)
    requests[:, snap.PREDICTED] = 0
    room = case.tier.limits.max_model_len - case.workload.prompt
    requests[:, snap.CAP] = np.minimum(case.max_tokens, room)[slots]
    known = case.workload.at_s[slots] <= publication.taken_in_s
    return _shown(exact) | {"requests": requests[known].tolist()}


def _shown(snapshot: InstanceSnapshot) -> dict[str, Any]:
    return {
        "free_blocks": snapshot.free_blocks,
        "running": snapshot.running,
        "requests": snapshot.requests.tolist(),
        "steps": snapshot.steps.tolist(),
        "step_start_s": np.nan_to_num(snapshot.step_start_s, nan=-1.0).tolist(),
    }


def _slots(engine: EngineSim, exact: InstanceSnapshot) -> list[int]:
    """Slots of the rows of an exported snapshot, in their order."""
    state = engine.state
    slots = [int(slot) for slot in state.running[0, : exact.running]]
    slot = int(state.counts[0, inst.WAITING_HEAD])
    while len(slots) < len(exact.requests):
        slots.append(slot)
        slot = int(state.slots[slot, req.NEXT])
    return slots


def _difference(found: InstanceSnapshot, expected: dict[str, Any]) -> str | None:
    shown = _shown(found)
    for name, value in expected.items():
        if shown[name] != value:
            return f"{name}:\n  published {shown[name]}\n  engine    {value}"
    return None
