"""Run every ``benchmarks/bench_*.py`` and print one table, or JSON with ``--json``.

A module offers ``rows() -> list[dict]``. Keys: ``path`` (what is measured), ``ours`` and ``unit``, and
where there is something to compare with ``peer`` (in the same unit), ``peer_name`` and ``ratio``
(how many times faster ours is: peer ÷ ours for times, ours ÷ peer for rates). Other keys stand under the
path.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table


@dataclass(frozen=True)
class Outcome:
    """What one module gave: its rows, or why there are none; ``seconds`` is its whole running time."""

    module: str
    rows: list[dict[str, Any]]
    failure: str | None
    seconds: float


def modules(wanted: list[str]) -> list[str]:
    """Names of all benchmark modules, or of those whose name contains one of ``wanted``."""
    names = sorted(path.stem for path in Path(__file__).parent.glob("bench_*.py"))
    return [name for name in names if not wanted or any(word in name for word in wanted)]


def measure(name: str) -> Outcome:
    """Run one module; whatever stops it becomes its reason, so that the others still run."""
    started = time.perf_counter()
    rows: list[dict[str, Any]] = []
    failure: str | None = None
    try:
        rows = importlib.import_module(f"benchmarks.{name}").rows()
    except Exception as error:  # the boundary of one benchmark; the reason is printed and the exit code tells
        failure = f"{type(error).__name__}: {error}"
    return Outcome(name, rows, failure, time.perf_counter() - started)


def host() -> dict[str, Any]:
    """The machine that the figures belong to."""
    return {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "load_1min": round(os.getloadavg()[0], 2),
    }


def shown(value: Any) -> str:
    """Numbers with four significant digits, everything else as text."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(value)
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def cells(row: dict[str, Any], extra: list[str]) -> list[str]:
    """The printed cells of one row: path with the extra keys, ours, peer, ratio, peer's name."""
    unit = row.get("unit", "")
    figures = [f"{shown(row[key])} {unit}".rstrip() if key in row else "" for key in ("ours", "peer")]
    ratio = f"{shown(row['ratio'])} ×" if "ratio" in row else ""
    besides = ", ".join(f"{key} {shown(row[key])}" for key in extra if key in row)
    path = str(row.get("path", "")) + (f" ({besides})" if besides else "")
    return [escape(text) for text in (path, *figures, ratio, str(row.get("peer_name", "")))]


def print_table(outcomes: list[Outcome]) -> None:
    facts = host()
    caption = f"Python {facts['python']}, {facts['cores']} cores, load {facts['load_1min']} at the end"
    table = Table(title="Speed of the hot paths", caption=caption)
    known = ("path", "ours", "peer", "ratio", "peer_name", "unit")
    every = dict.fromkeys(key for outcome in outcomes for row in outcome.rows for key in row)
    extra = [key for key in every if key not in known]
    for heading in ("path", "ours", "peer", "ratio", "peer is"):
        table.add_column(
            escape(heading), overflow="fold", justify="right" if heading in known[1:4] else "left"
        )
    for outcome in outcomes:
        for row in outcome.rows:
            table.add_row(*cells(row, extra))
        table.add_section()
    console = Console(width=None if sys.stdout.isatty() else 130)
    console.print(table)
    for outcome in outcomes:
        if outcome.failure:
            console.print(f"{outcome.module} did not run: {outcome.failure}", markup=False, style="red")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("modules", nargs="*", help="parts of module names; all where none is given")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    arguments = parser.parse_args()
    names = modules(arguments.modules)
    if not names:
        print(f"no benchmark module matches {arguments.modules}", file=sys.stderr)
        return 2
    outcomes = []
    for name in names:
        print(f"{name} ...", file=sys.stderr)
        outcomes.append(measure(name))
    if arguments.json:
        print(json.dumps({"host": host(), "modules": [vars(outcome) for outcome in outcomes]}, indent=2))
    else:
        print_table(outcomes)
    return int(any(outcome.failure for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main())
