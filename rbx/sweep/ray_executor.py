"""Run simulated cells as tasks of a Ray cluster; only this process writes.

Workers need no file of ours: they get the content of those that the cells share once, and send back records
and summary. They must have the same code, so that a cell has the same bytes wherever it ran.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from typing import Any

import pyarrow as pa

from rbx.errors import RbxError, StoreError
from rbx.ray_cluster import cause_of, connected
from rbx.sweep.cell import simulated_cell
from rbx.sweep.context import SweepContext
from rbx.sweep.executor import Done, StopRequest
from rbx.sweep.shipped import check_identity, code_identity, unpacked
from rbx.sweep.store import CellSpec, SweepStore

_RETRIES = 3
_LOOK_S = 0.2


def run_on_ray(
    address: str,
    files: Mapping[str, bytes],
    cells: Sequence[CellSpec],
    store: SweepStore,
    at_most: int | None,
    stop: StopRequest,
    done: Done,
) -> None:
    """One task a cell, as many at a time as the cluster has CPUs, or ``at_most``.

    A cell whose worker dies is run again elsewhere, up to three times. Raises what a cell raised,
    ``StoreError`` where workers keep dying, ``ServerError`` where there is no cluster.
    """
    if not cells:
        return
    # Ray prints what befalls nodes to standard output, which is the result's alone.
    with redirect_stdout(sys.stderr), connected(address) as ray:
        task = ray.remote(_run_elsewhere).options(num_cpus=1, max_retries=_RETRIES)
        # Within a list, so that a worker fetches the files with its first cell alone.
        shared = [ray.put(dict(files))]
        identity = code_identity()
        todo = iter(cells)
        running: dict[Any, CellSpec] = {}
        while True:
            if not stop.asked:
                room = at_most or max(1, int(ray.cluster_resources().get("CPU", 1)))
                for cell in itertools.islice(todo, max(0, room - len(running))):
                    running[task.remote(shared, cell, identity)] = cell
            if not running:
                return
            # A bounded wait, so that a Ctrl-C is acted on while cells run.
            for finished in ray.wait(list(running), num_returns=1, timeout=_LOOK_S)[0]:
                cell = running.pop(finished)
                records, summary = _received(ray, finished, cell)
                store.write_cell(pa.ipc.open_stream(records).read_all(), summary)
                done(cell)


def _received(ray: Any, finished: Any, cell: CellSpec) -> tuple[bytes, dict[str, Any]]:
    errors = ray.exceptions
    try:
        records, summary = ray.get(finished)
    except errors.RayTaskError as error:
        if isinstance(error.cause, RbxError):
            raise error.cause from None
        if "No module named" in str(error):
            raise StoreError(
                f"a Ray worker lacks a module: {cause_of(error)}; install rbx on every node as it is here"
            ) from None
        raise
    except errors.RayError as error:
        raise StoreError(
            f"cell {cell.cell_id} did not finish on the Ray cluster: {cause_of(error)}; finished cells are "
            "kept: run the same command to go on, with fewer --jobs if memory ran out"
        ) from None
    return records, summary


_contexts: dict[Any, SweepContext] = {}


def _run_elsewhere(
    shared: Sequence[Any], cell: CellSpec, identity: Mapping[str, str]
) -> tuple[bytes, dict[str, Any]]:
    """In a worker: records as an Arrow stream, and the summary."""
    import ray

    if shared[0] not in _contexts:
        check_identity(identity)
        _contexts.clear()
        _contexts[shared[0]] = unpacked(ray.get(shared[0]))
    records, summary = simulated_cell(_contexts[shared[0]], cell)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, records.schema) as writer:
        writer.write_table(records)
    return sink.getvalue().to_pybytes(), summary
