from __future__ import annotations

import random
from typing import Any

from rbx.config.faults import FaultScript
from rbx.serve.mock.fault_book import FaultBook


def book(*faults: dict[str, Any], seed: int = 0) -> FaultBook:
    return FaultBook(FaultScript.model_validate({"faults": faults}).faults, 100.0, random.Random(seed))


def test_a_fault_acts_from_its_start_to_before_its_end() -> None:
    script = book(
        {"kind": "refuse", "start_s": 2.0, "end_s": 5.0}, {"kind": "slow", "factor": 4.0, "start_s": 4.0}
    )
    assert [script.condition(at_s).refusing for at_s in (100.0, 101.99, 102.0, 104.99, 105.0)] == [
        False, False, True, True, False,
    ]  # fmt: skip
    assert script.condition(104.0).rate == 0.25
    edges = [100.0]
    while (after := script.next_change_s(edges[-1])) is not None:
        edges.append(after)
    assert edges == [100.0, 102.0, 104.0, 105.0]


def test_slow_faults_multiply_freezing_stops_and_down_refuses() -> None:
    acting = book({"kind": "slow", "factor": 2.0}, {"kind": "slow", "factor": 3.0}).condition(100.0)
    assert acting.rate == 1 / 6
    assert book({"kind": "slow", "factor": 2.0}, {"kind": "freeze"}).condition(100.0).rate == 0.0
    assert book({"kind": "down"}).condition(100.0).refusing


def test_the_cut_that_comes_first_acts_and_the_first_of_a_kind() -> None:
    script = book(
        {"kind": "crash", "after_chunks": 9},
        {"kind": "hang", "after_chunks": 2},
        {"kind": "hang", "after_chunks": 1},
        {"kind": "no_done"},
        {"kind": "usage", "mode": "null"},
    )
    found = script.for_request(100.0)
    assert found.cut is not None
    assert (found.cut.kind, found.cut.after_chunks) == ("hang", 2)
    assert found.no_done is not None
    assert found.usage is not None
    assert (found.status, found.bad_json) == (None, None)


def test_a_number_of_requests_is_used_up_and_the_next_fault_of_the_kind_follows() -> None:
    script = book(
        {"kind": "status", "code": 500, "requests": 2}, {"kind": "status", "code": 503, "requests": 1}
    )
    codes = [found.code if (found := script.for_request(100.0).status) else None for _ in range(4)]
    assert codes == [500, 500, 503, None]


def test_a_share_is_drawn_by_the_seed() -> None:
    hits = [
        [book_.for_request(100.0).status is not None for _ in range(2000)]
        for book_ in (book({"kind": "status", "share": 0.3}, seed=seed) for seed in (1, 1, 2))
    ]
    assert hits[0] == hits[1] != hits[2]
    assert 500 < sum(hits[0]) < 700
