"""A whole sweep: prepare its directory, run what is not finished, say what is there."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rbx.errors import StoreError
from rbx.sweep.executor import Done, StopRequest, run_here, run_in_processes
from rbx.sweep.loading import load_context
from rbx.sweep.plan import Plan
from rbx.sweep.prompts import save_prompt_table
from rbx.sweep.provenance import provenance
from rbx.sweep.ray_executor import run_on_ray
from rbx.sweep.shipped import packed
from rbx.sweep.store import CellSpec, SweepStore, sha256_of


@dataclass(frozen=True)
class SweepResult:
    """How many cells the plan has, were already finished, ran now, and are left."""

    planned: int
    resumed: int
    ran: int
    left: int


def run_sweep(
    plan: Plan,
    folder: Path,
    *,
    jobs: int | None,
    ray_address: str | None = None,
    started: Callable[[int, int], None],
    done: Done,
    stopping: Callable[[], None],
) -> SweepResult:
    """Run or resume a plan in ``folder``, on this machine with ``jobs`` workers (default: one a core) or on
    the Ray cluster at ``ray_address`` (default: one a CPU of the cluster).

    ``started(cells to run, cells already finished)`` is called once, ``done`` after each cell,
    ``stopping`` at the first Ctrl-C. Raises ``StoreError`` where the directory can't be used.
    """
    store = SweepStore(folder)
    with store.locked():
        prepare(plan, store)
        cells = [cell for cell in plan.cells if not store.is_finished(cell.cell_id)]
        resumed = len(plan.cells) - len(cells)
        started(len(cells), resumed)
        ran: list[CellSpec] = []

        def count(cell: CellSpec) -> None:
            ran.append(cell)
            done(cell)

        stop = StopRequest()
        with stop.listening(stopping):
            if ray_address is not None:
                files = packed(folder, plan.context.experiment)
                run_on_ray(ray_address, files, cells, store, jobs, stop, count)
            elif (workers := min(jobs or os.cpu_count() or 1, len(cells))) <= 1:
                run_here(plan.context, cells, store, stop, count)
            else:
                run_in_processes(load_context, cells, store, workers, stop, count)
        return SweepResult(len(plan.cells), resumed, len(ran), len(cells) - len(ran))


def prepare(plan: Plan, store: SweepStore) -> None:
    """Write what the cells share; a directory of another experiment is refused."""
    manifest: dict[str, Any] = {**plan.manifest, **provenance()}
    if (store.folder / "manifest.json").exists():
        earlier = store.read_manifest()
        if earlier.get("name") != manifest["name"]:
            raise StoreError(
                f"{store.folder}: holds sweep {earlier.get('name')!r}, not {manifest['name']!r}; use --out"
            )
        manifest["created"] = earlier.get("created", manifest["created"])
    save_prompt_table(plan.context.prompts, store.folder)
    manifest["labels_sha256"] = sha256_of(store.folder / "labels.parquet")
    manifest["cells"] = [asdict(cell) for cell in plan.cells]
    store.write_manifest(manifest)
