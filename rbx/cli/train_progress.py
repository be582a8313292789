"""Progress bars of the training stages, on stderr."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars

from rbx.heads.progress import Progress


@contextmanager
def shown_progress() -> Iterator[Progress]:
    """One bar a stage with its time to go; a stage appears at its first report."""
    bars = Bars(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(elapsed_when_finished=True),
        console=Console(stderr=True),
    )
    stages: dict[str, TaskID] = {}

    def show(stage: str, done: int, total: int) -> None:
        if stage not in stages:
            stages[stage] = bars.add_task(stage, total=total)
        bars.update(stages[stage], completed=done, total=total)

    with bars:
        yield show
