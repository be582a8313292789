"""How far labelling is: bars on a terminal, a line now and then in a log."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeRemainingColumn
from rich.progress import Progress as RichBars
from rich.text import Text

from rbx.cli.main import printable
from rbx.label.progress import Progress

LOG_EVERY_S = 10.0


@contextmanager
def shown_progress() -> Iterator[Progress]:
    """Progress on stderr, in the way that suits it."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield Log(console)
        return
    bars = RichBars(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}", markup=False),
        TimeRemainingColumn(elapsed_when_finished=True),
        TextColumn("{task.fields[failed]}", markup=False),
        console=console,
    )
    with bars:
        yield Bars(bars)


@dataclass
class _Line:
    """One model or signal; the rate is that of this run, whatever was there before."""

    total: int
    done: int
    began_s: float = field(default_factory=time.monotonic)
    made: int = 0
    failed: int = 0

    def add(self, units: int, failed: int) -> None:
        self.done, self.made, self.failed = self.done + units, self.made + units, self.failed + failed

    @property
    def rate_per_s(self) -> float:
        elapsed_s = time.monotonic() - self.began_s
        return self.made / elapsed_s if elapsed_s > 0 else 0.0

    @property
    def rate(self) -> str:
        return f"{self.rate_per_s:,.0f}/s" if self.rate_per_s >= 100 else f"{self.rate_per_s:.3g}/s"

    @property
    def left_s(self) -> float | None:
        return (self.total - self.done) / self.rate_per_s if self.made else None


class Bars:
    """One bar a line, drawn over each other by rich."""

    def __init__(self, bars: RichBars) -> None:
        """``bars`` is already shown."""
        self._bars = bars
        self._lines: dict[str, tuple[TaskID, _Line]] = {}

    def say(self, text: str) -> None:
        """A line above the bars."""
        self._bars.console.print(Text(printable(text)))

    def line(self, name: str, total: int, done: int) -> None:
        """A new bar."""
        task = self._bars.add_task(printable(name), total=total, completed=done, rate="", failed="")
        self._lines[name] = task, _Line(total, done)

    def advance(self, name: str, units: int, failed: int) -> None:
        """Move a bar on."""
        task, line = self._lines[name]
        line.add(units, failed)
        self._bars.update(
            task,
            completed=line.done,
            rate=line.rate,
            failed=f"{line.failed:,} without result" if line.failed else "",
        )


class Log:
    """Plain lines, for files and pipes."""

    def __init__(self, console: Console) -> None:
        """Lines go to ``console``."""
        self._console = console
        self._lines: dict[str, _Line] = {}
        self._told_s = time.monotonic()

    def say(self, text: str) -> None:
        """A line."""
        self._print(text)

    def line(self, name: str, total: int, done: int) -> None:
        """Note a line of work, and what of it was there before."""
        self._lines[name] = _Line(total, done)
        self._print(f"{name}: {done:,} of {total:,} there")

    def advance(self, name: str, units: int, failed: int) -> None:
        """Tell of all lines every ``LOG_EVERY_S``, and of each when it is finished."""
        line = self._lines[name]
        line.add(units, failed)
        if line.done == line.total:
            self._tell(name, line)
        elif time.monotonic() - self._told_s >= LOG_EVERY_S:
            self._told_s = time.monotonic()
            for each, its_line in self._lines.items():
                if its_line.done < its_line.total:
                    self._tell(each, its_line)

    def _tell(self, name: str, line: _Line) -> None:
        failed = f", {line.failed:,} without result" if line.failed else ""
        left = f", {line.left_s:,.0f} s to go" if line.left_s else ""
        self._print(f"{name}: {line.done:,} of {line.total:,}, {line.rate}{left}{failed}")

    def _print(self, text: str) -> None:
        self._console.print(Text(printable(text)), soft_wrap=True)
