"""The live view: what is asked, what is achieved, and nothing that a server could smuggle into a terminal."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from rbx.cli.live_board import LiveBoard
from rbx.load.client.tally import Tally
from rbx.sweep.plan import Plan
from rbx.sweep.store import CellSpec, CellSummary
from tests.report.test_live_report import live_summary
from tests.sweep.live.results import context

CELLS = tuple(CellSpec(f"c{k}", f"policy {k}", {}, 20.0, None, 0, "w", 600) for k in range(3))


class Clock:
    """Time that passes when told."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 100.0
        monkeypatch.setattr("rbx.cli.live_board.time.monotonic", lambda: self.now_s)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def board_of(*, terminal: bool = False) -> tuple[LiveBoard, io.StringIO, Console]:
    written = io.StringIO()
    console = Console(file=written, force_terminal=terminal, width=200, color_system=None)
    board = LiveBoard(console, Plan(context(), CELLS, {}))
    board.planned(CELLS, 2)
    return board, written, console


def tally() -> Tally:
    found = Tally(requests=600, elapsed_s=10.0, sent=199, in_flight=7, waiting=2)
    found.ended = {"ok": 180, "error": 12}
    found.faults = {"status": 12}
    found.budgets = {"true": 11, "false": 37}
    found.in_flight_by_instance = {"small_gpu/0": 2, "small_gpu/2": 1, "large_gpu/1": 2, "\x1b[31mred": 1}
    for k in range(1, 101):
        found.ttft.add(k / 100)
        found.e2e.add(k / 10)
    return found


def done(cell: CellSpec, **live: Any) -> CellSummary:
    given: dict[str, Any] = {
        **dict.fromkeys(("not_sent", "timeout", "cancelled", "steps", "preemptions", "batches"), 0),
        **dict.fromkeys(("infeasible", "alarms"), 0),
        **{"scheduled": 600, "sent": 600, "ok": 590, "error": 10},
        **{"busy_s": {}, "duration_s": 30.0, "records_sha256": ""},
    }
    return CellSummary(cell_id=cell.cell_id, **given, live=live_summary(**live))


def test_the_panel_shows_where_the_cell_stands(clock: Clock) -> None:
    board, written, console = board_of(terminal=True)
    board.begun(CELLS[0])
    board.phase("sending")
    board.counted(tally())
    console.print(board)
    shown = written.getvalue()
    assert "cell 1 of 3" in shown
    assert "policy 0 at 20 req/s, seed 0: sending" in shown
    assert "199 of 600, 2 late; 19.9 of 20 req/s" in shown
    assert "7, elsewhere 1, large_gpu 2, small_gpu 3, not answering yet 1" in shown
    assert "11 of 48 ended by theirs" in shown
    assert re.search(r"TTFT +p50 0\.(49\d|50\d?) s", shown)
    assert re.search(r"p99 9\.[89]\d? s", shown)
    assert "error 12, ok 180 (status 12)" in shown


def test_time_left_is_that_of_the_arrivals_and_of_what_cells_took_beyond(clock: Clock) -> None:
    board, written, console = board_of(terminal=True)
    board.begun(CELLS[0])
    board.phase("waiting for the servers", waiting=True)
    clock.now_s += 500.0  # servers that come up
    console.print(board)
    assert "about 2 min 30 s left" in written.getvalue()  # 3 × (30 s of arrivals and a guess of 20)
    board.phase("sending")
    clock.now_s += 36.0
    board.ended(CELLS[0], done(CELLS[0]))
    written.truncate(0)
    console.print(board)
    assert "about 1 min 12 s left" in written.getvalue()  # 2 × (30 + 6)


def test_without_a_terminal_lines_are_few_and_whole(clock: Clock) -> None:
    board, written, _ = board_of()
    board.begun(CELLS[0])
    for _ in range(25):
        clock.now_s += 1.0
        board.counted(tally())
    lines = [line for line in written.getvalue().splitlines() if "in flight" in line]
    assert len(lines) == 3
    board.ended(CELLS[0], done(CELLS[0], reasons=("client-bound: late",), warnings=("short answers",)))
    said = written.getvalue()
    assert "1/3  policy 0 at 20 req/s, seed 0: 590 ok, 10 not  INVALID: client-bound: late" in said
    assert "      short answers" in said
    assert "2 of 5 cells were finished before" in said


def test_nothing_in_it_steers_a_terminal(clock: Clock) -> None:
    board, written, _ = board_of()
    odd = replace(CELLS[0], label="a \x1b[2Jpolicy")
    board.begun(odd)
    clock.now_s += 60.0
    board.counted(tally())
    board.ended(odd, done(odd, warnings=("from a server: \x1b[31m",)))
    assert "\x1b" not in written.getvalue()
