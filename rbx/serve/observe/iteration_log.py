"""Executed steps out of the log of a server run with ``--enable-logging-iteration-details``.

A line has the tokens and the length of a step, not its time nor any context. So steps are laid end to
end, and what passes between two of them (scheduling, output) is missing: a fit to such a trace prices
steps too low, by most where steps are short. The plugin has neither fault.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rbx.errors import DatasetError

_STEP = re.compile(
    r"(?:Engine (?P<engine>\d+): )?Iteration\((?P<number>\d+)\): (?P<prefill_requests>\d+) context requests, "
    r"(?P<prefill_tokens>\d+) context tokens, (?P<decodes>\d+) generation requests, "
    r"(?P<generated>\d+) generation tokens, iteration elapsed time: (?P<elapsed_ms>[\d.]+) ms"
    r"(?P<dummy> \(dummy\))?"
)
_COUNTS = ("decodes", "prefill_tokens", "prefill_requests")


class IterationLog:
    """The steps that a growing log file shows; a ``StepSource`` without sums of contexts.

    Raises ``DatasetError`` if there is no such file.
    """

    def __init__(self, path: Path) -> None:
        """Open the log at its beginning."""
        if not path.is_file():
            raise DatasetError(f"{path}: no such log; give the file that the server writes its log to")
        self._path = path
        self._read_bytes = 0
        self._line = 0
        self._end_s = 0.0

    def take(self) -> tuple[dict[str, NDArray[Any]], int]:
        """Columns of all steps since the last call; none is ever lost."""
        with self._path.open("rb") as file:
            file.seek(self._read_bytes)
            text = file.read()
        whole = text[: text.rfind(b"\n") + 1]
        self._read_bytes += len(whole)
        rows = []
        for line in whole.decode("utf-8", errors="replace").splitlines():
            self._line += 1
            if found := _STEP.search(line):
                rows.append(found)
        steps = [row for row in rows if self._counts(row)]
        return self._columns(steps), 0

    @property
    def ended(self) -> bool:
        """Never: a log does not tell."""
        return False

    def describe(self) -> dict[str, Any]:
        """That the trace comes from a log."""
        return {"source": "iteration log"}

    def _counts(self, row: re.Match[str]) -> bool:
        """Whether a line stands for a step of the only engine."""
        if int(row["engine"] or 0) != 0:
            raise DatasetError(
                f"{self._path}: line {self._line} or before is of engine {row['engine']}; a trace has the "
                "steps of one engine: log each data-parallel rank by itself, or use the plugin"
            )
        if row["decodes"] != row["generated"]:
            raise DatasetError(
                f"{self._path}: step {row['number']} generates {row['generated']} tokens for "
                f"{row['decodes']} requests; speculative decoding is not modelled"
            )
        return not row["dummy"] and float(row["elapsed_ms"]) > 0.0

    def _columns(self, steps: list[re.Match[str]]) -> dict[str, NDArray[Any]]:
        seconds = np.array([float(step["elapsed_ms"]) / 1000.0 for step in steps])
        ends = self._end_s + np.cumsum(seconds)
        columns: dict[str, NDArray[Any]] = {"start_s": ends - seconds, "end_s": ends}
        if len(steps):
            columns["start_s"][1:] = ends[:-1]  # exactly, whatever the rounding
            columns["start_s"][0] = self._end_s
            self._end_s = float(ends[-1])
        for name in _COUNTS:
            columns[name] = np.array([int(step[name]) for step in steps], dtype=np.int64)
        return columns
