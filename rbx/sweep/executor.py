"""Run the cells of a plan, in this process or in several, with a clean stop.

Every worker reads the same context and writes its own cells, so results do not depend on the number
of workers. The first Ctrl-C lets running cells finish and starts no others; the second aborts.
"""

from __future__ import annotations

import multiprocessing
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from pathlib import Path

from rbx.errors import StoreError
from rbx.sweep.cell import run_cell
from rbx.sweep.context import SweepContext
from rbx.sweep.store import CellSpec, SweepStore

Done = Callable[[CellSpec], None]


class StopRequest:
    """Set by the first Ctrl-C; the second raises ``KeyboardInterrupt`` where it falls."""

    def __init__(self) -> None:
        """Not asked yet."""
        self.asked = False

    @contextmanager
    def listening(self, announce: Callable[[], None]) -> Iterator[None]:
        """Take over SIGINT for the time of the block; elsewhere than the main thread do nothing."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def on_signal(number: int, frame: object) -> None:
            if self.asked:
                raise KeyboardInterrupt
            self.asked = True
            announce()

        before = signal.signal(signal.SIGINT, on_signal)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)


def run_here(
    context: SweepContext, cells: list[CellSpec], store: SweepStore, stop: StopRequest, done: Done
) -> None:
    """One cell after another in this process."""
    for cell in cells:
        if stop.asked:
            return
        run_cell(context, cell, store)
        done(cell)


_worker: tuple[SweepContext, SweepStore] | None = None


def _start_worker(load: Callable[[Path], SweepContext], folder: Path) -> None:
    global _worker
    # Ctrl-C reaches the whole process group; only the parent decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _worker = (load(folder), SweepStore(folder))


def _run_in_worker(cell: CellSpec) -> None:
    assert _worker is not None
    run_cell(_worker[0], cell, _worker[1])


def run_in_processes(
    load: Callable[[Path], SweepContext],
    cells: list[CellSpec],
    store: SweepStore,
    jobs: int,
    stop: StopRequest,
    done: Done,
) -> None:
    """``jobs`` worker processes, each loading the context from the sweep's directory."""
    pool = ProcessPoolExecutor(
        jobs,
        mp_context=multiprocessing.get_context("spawn"),
        initializer=_start_worker,
        initargs=(load, store.folder),
    )
    try:
        _feed(pool, cells, jobs, stop, done)
    except BrokenProcessPool:
        raise StoreError(
            f"{store.folder}: a worker process died (out of memory?); finished cells are kept, "
            "run the same command to go on, with fewer --jobs"
        ) from None
    except BaseException:
        for process in list((pool._processes or {}).values()):
            process.terminate()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _feed(pool: ProcessPoolExecutor, cells: list[CellSpec], jobs: int, stop: StopRequest, done: Done) -> None:
    """Keep at most one waiting cell a worker, so that a stop is quick."""
    todo = iter(cells)
    running: dict[Future[None], CellSpec] = {}
    exhausted = False
    while True:
        while not exhausted and not stop.asked and len(running) < 2 * jobs:
            cell = next(todo, None)
            if cell is None:
                exhausted = True
            else:
                running[pool.submit(_run_in_worker, cell)] = cell
        if stop.asked:
            for future in [future for future in running if future.cancel()]:
                del running[future]
        if not running:
            return
        # A bounded wait, so that a Ctrl-C is acted on while cells run.
        finished, _ = wait(running, timeout=0.2, return_when=FIRST_COMPLETED)
        for future in finished:
            future.result()
            done(running.pop(future))
