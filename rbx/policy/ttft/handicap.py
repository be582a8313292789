"""What an ablation takes from BEA: right step times, or the batches in flight."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from rbx.engine import snapshot_columns as snap
from rbx.engine.instance_profile import InstanceProfile
from rbx.engine.instance_snapshot import InstanceSnapshot


@dataclass(frozen=True)
class Handicap:
    """Step times off by one factor; and, without ``in_flight``, running steps that count as over.

    Without its batches in flight an instance looks as if it were about to form its next batch: the rest
    of the running step, and the batch ahead under asynchronous scheduling, are left out of the wait.
    """

    step_time_scale: float = 1.0
    in_flight: bool = True

    def spoil(self, snapshot: InstanceSnapshot) -> InstanceSnapshot:
        """The snapshot as the handicapped estimator sees it."""
        if self.step_time_scale != 1.0:
            snapshot = replace(snapshot, profile=self._scaled(snapshot.profile))
        return snapshot if self.in_flight else _landed(snapshot)

    def _scaled(self, profile: InstanceProfile) -> InstanceProfile:
        known = profile.coefficients
        seconds = tuple(self.step_time_scale * value for value in known.seconds)
        fit_id = f"{known.fit_id} x {self.step_time_scale:g}"
        return replace(profile, coefficients=replace(known, fit_id=fit_id, seconds=seconds))


def _landed(snapshot: InstanceSnapshot) -> InstanceSnapshot:
    """Every token in flight counts as given; who ends by it is gone and its blocks are free."""
    rows = snapshot.requests.copy()
    rows[:, snap.GENERATED] += rows[:, snap.YIELDS] + rows[:, snap.YIELDS_AHEAD]
    rows[:, [snap.YIELDS, snap.YIELDS_AHEAD]] = 0
    runs = np.arange(len(rows)) < snapshot.running
    # Left out of the batch ahead means that the running step gives its last token.
    skipped = snapshot.ahead & (snapshot.requests[:, snap.YIELDS_AHEAD] == 0)
    ends = runs & (rows[:, snap.PREFILLING] == 0) & skipped
    ends |= rows[:, snap.GENERATED] >= rows[:, snap.CAP]
    return replace(
        snapshot,
        free_blocks=snapshot.free_blocks + int(rows[ends, snap.BLOCKS].sum()),
        running=int((runs & ~ends).sum()),
        requests=rows[~ends],
        step_start_s=np.zeros(0),
        steps=np.zeros((0, snap.N_STEP), dtype=np.int64),
    )
