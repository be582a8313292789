"""A live sweep: one cell after the other on servers held for it alone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from rbx.config.experiment import Experiment
from rbx.config.live import Live
from rbx.errors import ConfigError
from rbx.heads.bundle import Bundle
from rbx.sweep.executor import StopRequest
from rbx.sweep.live.cell import LiveCell, sole_instance
from rbx.sweep.live.found_config import FILE as NOTE
from rbx.sweep.live.opening import opened
from rbx.sweep.live.order import interleaved
from rbx.sweep.live.sending import FOLDER as JOURNALS
from rbx.sweep.live.table import table_fault
from rbx.sweep.live.texts import GridTexts, read_texts
from rbx.sweep.live.watching import Onlooker
from rbx.sweep.plan import Plan
from rbx.sweep.run import prepare
from rbx.sweep.store import CellSpec, SweepStore

LOGS = "logs"
WAKES_S = 0.2
T = TypeVar("T")
# Servers that came up for neither of two cells in a row will not come up for a third.
_MOST_FAILED_IN_A_ROW = 2


@dataclass(frozen=True)
class LiveResult:
    """How many cells the plan has, were finished before, ran now, and are left.

    ``invalid`` counts finished cells of the plan that may not count, whenever they ran. ``gave_up`` tells
    that the servers could not be had, and the rest was not tried.
    """

    planned: int
    resumed: int
    ran: int
    left: int
    invalid: int
    gave_up: bool


def run_live_sweep(
    plan: Plan,
    folder: Path,
    onlooker: Onlooker,
    *,
    retry_invalid: bool,
    stopping: Callable[[], None],
) -> LiveResult:
    """Run or resume a plan in ``folder``; ``stopping`` is called at the first Ctrl-C.

    The first Ctrl-C, SIGTERM or SIGHUP lets the cell under way finish, the second ends it: it will start
    over. Raises ``StoreError`` where the directory or the target is in use elsewhere, ``ConfigError`` for a
    target that does not fit, ``LoadError`` where a client process dies.
    """
    experiment = plan.context.experiment
    live = live_of(experiment)
    sole_instance(live, plan.context.pool)
    store = SweepStore(folder)
    with store.locked():
        prepare(plan, store)
        texts = read_texts(experiment.grid, plan.manifest["grid"]["digest"])
        _clear_journals(folder)
        todo = _todo(plan, live, store, retry_invalid=retry_invalid)
        onlooker.planned(todo, len(plan.cells) - len(todo))
        ran, gave_up = 0, False
        if todo or (folder / NOTE).exists():
            stop = StopRequest()
            with stop.listening(stopping):
                ran, gave_up = asyncio.run(
                    _heeding_signals(_run(plan, live, texts, store, todo, onlooker, stop))
                )
        invalid = sum(_is_invalid(store, cell) for cell in plan.cells)
        return LiveResult(
            len(plan.cells), len(plan.cells) - len(todo), ran, len(todo) - ran, invalid, gave_up
        )


def _clear_journals(folder: Path) -> None:
    """What a killed sweep had of a cell is no cell, and it holds texts that may not be wanted here."""
    for path in sorted((folder / JOURNALS).glob("*.jsonl")):
        path.unlink(missing_ok=True)


def live_of(experiment: Experiment) -> Live:
    """The experiment's ``live``; raises ``ConfigError`` for a simulated one."""
    if experiment.live is None:
        raise ConfigError(f"experiment {experiment.name}: engine is {experiment.engine}, not live")
    return experiment.live


def in_order(cells: Sequence[CellSpec], live: Live) -> tuple[CellSpec, ...]:
    """Cells as the experiment orders them."""
    return interleaved(cells) if live.order == "interleaved" else tuple(cells)


def _todo(plan: Plan, live: Live, store: SweepStore, *, retry_invalid: bool) -> tuple[CellSpec, ...]:
    """The order is that of all cells, finished or not, so that a killed sweep goes on as it would have."""
    return tuple(
        cell
        for cell in in_order(plan.cells, live)
        if not store.is_finished(cell.cell_id) or (retry_invalid and _is_invalid(store, cell))
    )


def _is_invalid(store: SweepStore, cell: CellSpec) -> bool:
    """Whether a finished cell may not count, as ``rbx report`` sees it too."""
    summary = store.finished(cell.cell_id)
    if summary is None or summary.live is None:
        return False
    lost = table_fault(store.folder, cell.cell_id, summary.live.table_sha256)
    return lost is not None or not summary.live.valid


async def _heeding_signals(work: Coroutine[Any, Any, T]) -> T:
    """A signal that comes just before the loop goes to sleep is seen when it wakes: it wakes often."""

    async def wake() -> None:
        while True:
            await asyncio.sleep(WAKES_S)

    waking = asyncio.create_task(wake())
    try:
        return await work
    finally:
        waking.cancel()


async def _run(
    plan: Plan,
    live: Live,
    texts: GridTexts,
    store: SweepStore,
    todo: tuple[CellSpec, ...],
    onlooker: Onlooker,
    stop: StopRequest,
) -> tuple[int, bool]:
    """How many cells were run, and whether the servers were given up."""
    context = plan.context
    experiment = context.experiment
    bundle = Bundle.load(experiment.bundle)
    ran = failed = 0
    async with opened(
        live, experiment, context.pool, bundle, store.folder / LOGS, note=store.folder / NOTE
    ) as target:
        for cell in todo:
            if stop.asked:
                break
            summary = await LiveCell(context, live, texts, cell, store, onlooker).run(target)
            ran += 1
            fault = None if summary.live is None else summary.live.fault
            failed = failed + 1 if fault in ("launch_failed", "not_ready") else 0
            if failed == _MOST_FAILED_IN_A_ROW or fault == "not_there":
                return ran, ran < len(todo)
    return ran, False
