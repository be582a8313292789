"""Run the cells of a plan, in this process or in several, with a clean stop.

Every worker reads the same context and writes its own cells, so results do not depend on the number
of workers. The first Ctrl-C (or SIGTERM, SIGHUP) lets running cells finish and starts no others; the
second aborts.
"""

from __future__ import annotations

import itertools
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import connection
from multiprocessing.process import BaseProcess
from pathlib import Path

from rbx.ending import interrupt, leave_ending_to_parent, on_ending
from rbx.errors import StoreError
from rbx.sweep.cell import run_cell
from rbx.sweep.context import SweepContext
from rbx.sweep.store import CellSpec, SweepStore

Done = Callable[[CellSpec], None]


class StopRequest:
    """Set by the first Ctrl-C, SIGTERM or SIGHUP; the second raises ``KeyboardInterrupt`` where it falls."""

    def __init__(self) -> None:
        """Not asked yet."""
        self.asked = False

    @contextmanager
    def listening(self, announce: Callable[[], None]) -> Iterator[None]:
        """Take over these signals for the time of the block; in the main thread alone."""

        def asked() -> None:
            if self.asked:
                interrupt()
            self.asked = True
            announce()

        with on_ending(asked):
            yield


def run_here(
    context: SweepContext, cells: list[CellSpec], store: SweepStore, stop: StopRequest, done: Done
) -> None:
    """One cell after another in this process."""
    for cell in cells:
        if stop.asked:
            return
        run_cell(context, cell, store)
        done(cell)


_context: SweepContext | None = None


def _start_worker() -> None:
    leave_ending_to_parent()
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """A worker whose parent was killed would go on for ever, writing into a directory it no longer holds."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)


def _run_in_worker(load: Callable[[Path], SweepContext], folder: Path, cell: CellSpec) -> None:
    """Loads the context with the worker's first cell, so that a failure is that cell's own error."""
    global _context
    if _context is None:
        _context = load(folder)
    run_cell(_context, cell, SweepStore(folder))


def run_in_processes(
    load: Callable[[Path], SweepContext],
    cells: list[CellSpec],
    store: SweepStore,
    jobs: int,
    stop: StopRequest,
    done: Done,
) -> None:
    """``jobs`` worker processes, each loading the context from the sweep's directory.

    Raises what a cell raised, or ``StoreError`` where a worker died.
    """
    spawn = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(jobs, mp_context=spawn, initializer=_start_worker)
    workers: list[BaseProcess] = []
    try:
        for cell in _feed(
            lambda cell: pool.submit(_run_in_worker, load, store.folder, cell), cells, 2 * jobs, stop
        ):
            workers[:] = multiprocessing.active_children()
            if cell is not None:
                done(cell)
    except BrokenProcessPool:
        codes = ", ".join(_exit_codes(workers)) or "unknown"
        raise StoreError(
            f"{store.folder}: a worker process died (exit code {codes}; -9 is a kill, often for want of "
            "memory, -11 a crash); finished cells are kept: run the same command to go on, with fewer "
            "--jobs if memory ran out"
        ) from None
    except BaseException:
        for worker in workers:
            worker.terminate()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _exit_codes(workers: list[BaseProcess]) -> list[str]:
    """Of workers that did not end well; the executor ends the survivors of a broken pool with SIGTERM."""
    for worker in workers:
        worker.join(timeout=5)
    return sorted({str(w.exitcode) for w in workers if w.exitcode not in (None, 0, -signal.SIGTERM)})


def _feed(
    submit: Callable[[CellSpec], Future[None]], cells: list[CellSpec], at_most: int, stop: StopRequest
) -> Iterator[CellSpec | None]:
    """Yield each cell as it finishes, and None now and then; few wait in line, so that a stop is quick."""
    todo = iter(cells)
    running: dict[Future[None], CellSpec] = {}
    while True:
        if stop.asked:
            for future in [future for future in running if future.cancel()]:
                del running[future]
        else:
            for cell in itertools.islice(todo, at_most - len(running)):
                running[submit(cell)] = cell
        if not running:
            return
        # A bounded wait, so that a Ctrl-C is acted on while cells run.
        finished, _ = wait(running, timeout=0.2, return_when=FIRST_COMPLETED)
        for future in finished:
            future.result()
            yield running.pop(future)
        yield None
