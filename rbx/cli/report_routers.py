"""``rbx report --routers``: how good a bundle's routers are by themselves."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rbx.errors import UsageError

if TYPE_CHECKING:
    from rbx.report.routers.run import RouterReport


class RouterInputs(NamedTuple):
    """Where everything lies."""

    grid: Path
    bundle: Path
    pool: Path
    out: Path

    @classmethod
    def of(
        cls, *, grid: Path | None, bundle: Path | None, pool: Path | None, out: Path | None
    ) -> RouterInputs:
        """Raises ``UsageError`` naming the options that are missing."""
        if grid is None or bundle is None or pool is None or out is None:
            given = {"--grid": grid, "--bundle": bundle, "--pool": pool, "--out": out}
            missing = ", ".join(option for option, value in given.items() if value is None)
            raise UsageError(f"--routers needs {missing}")
        return cls(grid, bundle, pool, out)


def report_routers(
    inputs: RouterInputs, *, skip: Sequence[str], seed: int, resamples: int, as_json: bool
) -> None:
    """Load, judge, write, and show the short answer."""
    from rbx.cli.train_progress import shown_progress
    from rbx.config.pool import load_pool
    from rbx.grid.answers import read_answers
    from rbx.grid.store import open_view
    from rbx.heads.bundle import Bundle
    from rbx.report.paired import Resampling
    from rbx.report.routers.contender import CASCADE
    from rbx.report.routers.population import gather
    from rbx.report.routers.run import write_router_report
    from rbx.report.routers.study import PARTS, StudyOptions

    unknown = [part for part in skip if part not in PARTS]
    if unknown:
        raise UsageError(f"--skip {', '.join(unknown)}: there are {', '.join(PARTS)}")
    options = StudyOptions(seed, Resampling(n_resamples=resamples, seed=seed), frozenset(skip))
    bundle = Bundle.load(inputs.bundle)
    view = open_view(inputs.grid, bundle.meta.metric)
    pool = load_pool(inputs.pool).value
    answers = read_answers(inputs.grid, view, pool.models) if CASCADE in bundle.routers else None
    with shown_progress() as progress:
        material = gather(bundle, view, pool, progress, answers=answers)
        written = write_router_report(material, inputs.out, options, progress)
    if as_json:
        print(json.dumps(written.summary, indent=1, ensure_ascii=False, allow_nan=False))
    else:
        _show(written)


def _show(written: RouterReport) -> None:
    from rich.console import Console
    from rich.text import Text

    from rbx.report.plain_text import printable
    from rbx.report.routers.answers import answers
    from rbx.report.routers.robustness_tables import robustness_tables
    from rbx.report.routers.tables import area_table, brief, calibration_table
    from rbx.report.routers.words import stamp, warnings, what_was_judged
    from rbx.report.terminal import as_rich, print_words

    study, console = written.study, Console()
    marked = " · ".join(stamp(study))
    console.print(Text(printable(what_was_judged(study))))
    print_words(console, warnings(study), answers(study))
    tables = [brief(study), calibration_table(study), *([area_table(study)] if study.curves else [])]
    for table in (*tables, *robustness_tables(study)):
        console.print(as_rich(table, marked))
    console.print(str(written.page), markup=False, highlight=False, soft_wrap=True)
