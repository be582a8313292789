"""A published state as a source: rows under the router's names, with the router's predictions."""

from __future__ import annotations

import numpy as np
import pytest

from rbx.engine import snapshot_columns as snap
from rbx.engine.instance_profile import InstanceProfile
from rbx.engine.instance_snapshot import InstanceSnapshot
from rbx.engine.simulator import EngineSim
from rbx.engine.snapshot_export import export_snapshot
from rbx.errors import EngineError
from rbx.serve.state.engine_ids import row_id
from rbx.serve.state.exact import ExactState
from rbx.serve.state.ladder import Fallback, Rung, StateLadder
from tests.engine.scenes import tier

SERVER = tier(max_num_seqs=2)


class Reader:
    """Three requests, two of ours and one between them of somebody else, as an engine publishes them."""

    def __init__(self) -> None:
        self.ids = np.zeros(0, dtype=np.int64)
        engine = EngineSim([SERVER], 3)
        engine.submit_many([0] * 3, [0.0] * 3, [10, 20, 30], [50] * 3, [60] * 3)
        engine.advance(0.105)
        exact = export_snapshot(engine, 0, InstanceProfile.of(SERVER))
        requests = exact.requests.copy()
        requests[:, snap.PREDICTED] = 0
        self._snapshot = InstanceSnapshot(
            1, 0.105, exact.profile, exact.free_blocks, 2, requests, exact.step_start_s, exact.steps
        )

    def read(self, now_s: float) -> InstanceSnapshot:
        if now_s < self._snapshot.stamp_s:
            raise EngineError("stamp_s is 0.105: take now_s from time.monotonic")
        self.ids = np.array([row_id("a", "completions"), 7, row_id("b", "completions")])
        return self._snapshot


def test_rows_get_their_names_and_predictions() -> None:
    source = ExactState(Reader(), "completions")
    source.dispatched("a", 44)
    source.dispatched("b")
    reading = source.newest(0.115)
    assert reading.request_ids == ("a", "", "b")
    assert reading.snapshot.requests[:, snap.PREDICTED].tolist() == [44, 0, 0]
    assert reading.age_s == pytest.approx(0.01)
    source.ended("a")
    source.ended("never sent")
    reading = source.newest(0.115)
    assert (reading.request_ids, reading.snapshot.requests[0, snap.PREDICTED]) == (("", "", "b"), 0)


def test_the_id_depends_on_the_endpoint() -> None:
    source = ExactState(Reader(), "chat/completions")
    source.dispatched("a")
    assert source.newest(0.2).request_ids == ("", "", "")


def test_a_reader_that_refuses_sends_the_router_one_rung_down() -> None:
    states = StateLadder(
        InstanceProfile.of(SERVER), [Rung("plugin", ExactState(Reader(), "completions"), 0.5)]
    )
    assert states.best(0.2).rung == "plugin"
    assert states.best(0.1).rung == "ledger"
    assert states.fallbacks == {("plugin", Fallback.INVALID): 1}


def test_a_negative_prediction_is_refused() -> None:
    with pytest.raises(EngineError, match="predicted_tokens of request 'a' is -1"):
        ExactState(Reader(), "completions").dispatched("a", -1)
