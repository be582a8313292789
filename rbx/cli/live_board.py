"""The live view of a live sweep: a panel in a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rbx.cli.main import printable

if TYPE_CHECKING:
    from rich.console import Console

    from rbx.load.client.sketch import Sketch
    from rbx.load.client.tally import Tally
    from rbx.sweep.plan import Plan
    from rbx.sweep.store import CellSpec, CellSummary

_REFRESH_PER_S = 4
_LINE_EVERY_S = 10.0
_FIRST_GUESS_S = 20.0  # of what a cell takes beyond its arrivals, until one has ended


class LiveBoard:
    """An onlooker of ``rbx.sweep.live`` that keeps what it is told, and shows it when asked."""

    def __init__(self, console: Console, plan: Plan) -> None:
        """Nothing is under way."""
        self._console = console
        self._tiers = {instance.name: instance.tier.name for instance in plan.context.pool.instances}
        self._todo: tuple[CellSpec, ...] = ()
        self._finished = self._invalid = 0
        self._cell: CellSpec | None = None
        self._phase = "preparing"
        self._tally: Tally | None = None
        self._beyond_s: list[float] = []  # what finished cells took beyond their arrivals
        self._begun_s: float | None = None
        self._told, self._told_s = "", 0.0

    def note(self, words: str) -> None:
        """A line that stays."""
        self._console.print(printable(words), markup=False, highlight=False, soft_wrap=True)

    def planned(self, todo: tuple[CellSpec, ...], finished: int) -> None:
        """What will be run."""
        self._todo, self._finished = todo, 0
        if finished:
            self.note(f"{finished} of {finished + len(todo)} cells were finished before")

    def begun(self, cell: CellSpec) -> None:
        """A cell is under way."""
        self._cell, self._tally, self._begun_s = cell, None, None

    def phase(self, words: str, *, waiting: bool = False) -> None:
        """What is being done for it; servers that come up take time once, not in every cell."""
        self._phase = words
        if not waiting and self._begun_s is None:
            self._begun_s = time.monotonic()
        if not waiting or self._cell is None or self._console.is_terminal:
            return
        now_s = time.monotonic()
        if words != self._told or now_s - self._told_s >= _LINE_EVERY_S:
            self._told, self._told_s = words, now_s
            self.note(f"{_named(self._cell)}: {words}")

    def counted(self, tally: Tally) -> None:
        """Where its requests stand."""
        self._tally = tally
        now_s = time.monotonic()
        if not self._console.is_terminal and now_s - self._told_s >= _LINE_EVERY_S:
            self._told_s = now_s
            self.note("; ".join(f"{label} {words}" for label, words in self._figures()))

    def ended(self, cell: CellSpec, summary: CellSummary) -> None:
        """It is kept."""
        self._finished += 1
        if self._begun_s is not None:
            self._beyond_s.append(time.monotonic() - self._begun_s - _planned_s(cell))
        live = summary.live
        verdict = "" if live is None or live.valid else "  INVALID: " + "; ".join(live.reasons)
        self._invalid += bool(verdict)
        failed = summary.scheduled - summary.ok
        self.note(
            f"{self._finished}/{len(self._todo)}  {_named(cell)}: {summary.ok:,} ok"
            + (f", {failed:,} not" if failed else "")
            + verdict
        )
        for line in live.warnings if live is not None else ():
            self.note(f"      {line}")
        self._cell, self._tally, self._begun_s = None, None, None

    def _figures(self) -> Iterator[tuple[str, str]]:
        """(label, figures) of the cell under way."""
        cell, tally = self._cell, self._tally
        yield "sweep", f"cell {min(self._finished + 1, len(self._todo))} of {len(self._todo)}{self._eta()}"
        if cell is None:
            return
        yield "cell", f"{_named(cell)}: {self._phase}"
        if tally is None:
            return
        yield "sent", _rate(cell, tally)
        yield "in flight", _in_flight(tally, self._tiers)
        yield "TTFT", _quantiles(tally.ttft)
        yield "E2E", _quantiles(tally.e2e)
        yield "ended", _ended(tally)
        if tally.budgets:
            spent = tally.budgets.get("true", 0)
            yield "budgets", f"{spent:,} of {sum(tally.budgets.values()):,} ended by theirs"

    def _eta(self) -> str:
        left = self._todo[self._finished :]
        if not left:
            return ""
        beyond_s = sum(self._beyond_s) / len(self._beyond_s) if self._beyond_s else _FIRST_GUESS_S
        passed_s = 0.0 if self._begun_s is None else time.monotonic() - self._begun_s
        left_s = max(0.0, sum(_planned_s(cell) + beyond_s for cell in left) - passed_s)
        return f", about {_duration(left_s)} left"

    def __rich__(self) -> Any:
        """The panel."""
        from rich.table import Table
        from rich.text import Text

        grid = Table.grid(padding=(0, 2))
        for label, words in self._figures():
            grid.add_row(Text(label, style="dim"), Text(printable(words)))
        return grid


@contextmanager
def live_board(console: Console, plan: Plan) -> Iterator[LiveBoard]:
    """A board that is drawn again and again in a terminal, and prints lines elsewhere."""
    from rich.live import Live

    board = LiveBoard(console, plan)
    if not console.is_terminal:
        yield board
        return
    with Live(board, console=console, refresh_per_second=_REFRESH_PER_S, transient=True):
        yield board


def _named(cell: CellSpec) -> str:
    return f"{cell.label} at {cell.rate_per_s:g} req/s, seed {cell.seed}"


def _planned_s(cell: CellSpec) -> float:
    return max(1.0, cell.n_requests / cell.rate_per_s)


def _rate(cell: CellSpec, tally: Tally) -> str:
    achieved = tally.sent / tally.elapsed_s if tally.elapsed_s > 0 else 0.0
    waiting = f", {tally.waiting} late" if tally.waiting else ""
    return f"{tally.sent:,} of {tally.requests:,}{waiting}; {achieved:.3g} of {cell.rate_per_s:g} req/s"


def _in_flight(tally: Tally, tiers: Mapping[str, str]) -> str:
    by_tier: Counter[str] = Counter()
    for instance, n in tally.in_flight_by_instance.items():
        by_tier[tiers.get(instance, "elsewhere")] += n
    undecided = tally.in_flight - by_tier.total()
    shown = [f"{tier} {n}" for tier, n in sorted(by_tier.items()) if n]
    return ", ".join(
        [f"{tally.in_flight}", *shown, *([f"not answering yet {undecided}"] if undecided else [])]
    )


def _quantiles(sketch: Sketch) -> str:
    if not sketch.count:
        return "–"
    found = ((name, sketch.quantile(share)) for name, share in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99)))
    return "  ".join(f"{name} {value:.3g} s" for name, value in found if value is not None)


def _ended(tally: Tally) -> str:
    counts = [f"{status} {n:,}" for status, n in sorted(tally.ended.items()) if n]
    faults = [f"{fault} {n:,}" for fault, n in sorted(tally.faults.items()) if n]
    return ", ".join(counts or ["none"]) + (f" ({', '.join(faults)})" if faults else "")


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"
