"""The deployment ladder in whole cells: one routing, other waits, and parts that add up."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rbx.config.deployment import Concurrent, Deployment, InBatch, Microbatch, Serial, Sidecar
from rbx.config.policy import RoutedPolicy
from rbx.scheduler.scoring_stage import score_arrivals
from rbx.sweep.context import SweepContext
from rbx.sweep.scoring import simulated_records
from rbx.sweep.scoring_rates import scoring_rates
from rbx.sweep.simulate import Outcome, SimulatedCell
from rbx.sweep.workload import Arriving, draw_workload
from tests.sweep.scenes import small_context

BEFORE: tuple[Deployment, ...] = (
    Serial(),
    Microbatch(),
    Microbatch(max_size=3, window_s=0.0),
    Sidecar(rpc_s=0.02),
    Concurrent(workers=3),
)
COST = {"fixed_s": 0.03, "per_token_s": 1e-4, "max_tokens": 256, "padded": True}


def routed(deployment: Deployment, **fields: Any) -> RoutedPolicy:
    return RoutedPolicy(**{"router": "knn", "dispatch": "shortest-queue", **fields, "deployment": deployment})


def cell(
    policy: RoutedPolicy, rate_per_s: float = 20.0, **changes: Any
) -> tuple[SweepContext, Arriving, Outcome]:
    context = small_context(0, **changes)
    arriving = draw_workload(context.experiment.workload, context.prompts.input_tokens, rate_per_s, 0)
    return context, arriving, SimulatedCell(context, policy, arriving, 0).run()


@pytest.mark.parametrize("rung", BEFORE, ids=lambda rung: rung.label)
@pytest.mark.parametrize("cost", [{}, {"knn": COST}], ids=["encoder's cost", "stated cost"])
def test_every_rung_routes_alike_and_its_parts_add_up(rung: Deployment, cost: dict[str, Any]) -> None:
    scheduler = {"scoring_cost": cost}
    _, _, whole = cell(routed(InBatch()), scheduler=scheduler)
    context, arriving, found = cell(routed(rung), scheduler=scheduler)
    model = context.shape.model
    assert len(set(model[found.instance].tolist())) == 2
    assert model[found.instance].tolist() == model[whole.instance].tolist()
    assert whole.scoring_wait_s is None
    assert found.scoring_wait_s is not None
    parts_s = found.scoring_wait_s + found.batch_wait_s + found.encode_s + found.score_s
    assert parts_s == pytest.approx(found.decided_s - arriving.scheduled_s)
    for part_s in (found.scoring_wait_s, found.batch_wait_s, found.encode_s, found.score_s):
        assert part_s.min() >= -1e-12


@pytest.mark.parametrize("rung", BEFORE, ids=lambda rung: rung.label)
def test_prompts_come_to_the_loop_as_they_come_out_of_scoring(rung: Deployment) -> None:
    context, arriving, found = cell(routed(rung), scheduler={"scoring_cost": {"knn": COST}})
    queue = rung.queue
    assert queue is not None
    times = context.times_of(routed(rung)).scoring
    tokens = context.prompts.input_tokens[arriving.prompt]
    scored = score_arrivals(arriving.scheduled_s, tokens, queue, times)
    assert found.scoring_wait_s == pytest.approx(scored.began_s - arriving.scheduled_s)
    assert found.encode_s == pytest.approx(scored.back_s - scored.began_s)
    assert (found.decided_s >= scored.back_s).all()
    # Batches are numbered as they close: nobody who came out later stands in an earlier one.
    assert (np.diff(found.batch_id[scored.order]) >= 0).all()


def test_nothing_is_encoded_again_on_the_loop() -> None:
    slow = {"knn": {"fixed_s": 0.2}}
    _, _, within = cell(routed(InBatch(), batched=False), 4.0, scheduler={"scoring_cost": slow})
    _, _, before = cell(routed(Concurrent(workers=64), batched=False), 4.0, scheduler={"scoring_cost": slow})
    assert within.encode_s == pytest.approx(np.full(300, 0.2))
    assert before.encode_s == pytest.approx(np.full(300, 0.2))
    assert within.batch_wait_s.mean() > 0.3  # a loop that takes 5 requests/s at 4 of them
    assert before.batch_wait_s.max() < 0.01


def test_serial_scoring_collapses_where_concurrent_survives() -> None:
    changes: dict[str, Any] = {
        "scheduler": {"scoring_cost": {"knn": {"fixed_s": 0.1, "worker_slowdown": 2.0}}},
        "workload": {"n_requests": 1500, "max_output_tokens": 40},
    }
    _, arriving, serial = cell(routed(Serial()), **changes)
    context, _, concurrent = cell(routed(Concurrent(workers=8)), **changes)
    rates = scoring_rates(context, [routed(Serial()), routed(Concurrent(workers=8)), routed(InBatch())])
    assert rates[routed(Serial()).label] == pytest.approx(10.0)
    assert rates[routed(Concurrent(workers=8)).label] == pytest.approx(8 / 0.2)
    assert rates[routed(InBatch()).label] == pytest.approx(1 / (0.1 / 32 + 0.0005 / 32 + 0.0003))
    assert serial.scoring_wait_s is not None
    assert concurrent.scoring_wait_s is not None
    # Twice what it can take: half of the window's length is the mean wait at its middle.
    assert serial.scoring_wait_s.mean() == pytest.approx(arriving.scheduled_s[-1] / 2, rel=0.1)
    assert concurrent.scoring_wait_s.mean() < 0.05
    assert (serial.done_s - concurrent.done_s).mean() > 30.0


def test_records_of_such_cells_tell_the_wait_and_others_have_no_column_for_it() -> None:
    for rung, has in ((InBatch(), False), (Serial(), True)):
        context, arriving, found = cell(routed(rung))
        table = simulated_records("cell", context, arriving, found)
        assert ("scoring_wait_s" in table.column_names) == has
        parts = [name for name in table.column_names if name.endswith("wait_s")] + ["encode_s", "score_s"]
        total_s = sum(table[name].to_numpy().astype(float) for name in parts)
        waited_s = table["decided_s"].to_numpy() - table["scheduled_s"].to_numpy()
        assert total_s == pytest.approx(waited_s, abs=1e-4)
