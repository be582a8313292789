"""A finished grid's answers scored by further signals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rbx.errors import DatasetError, UsageError
from rbx.grid.build import Built
from rbx.grid.extend import with_labels
from rbx.grid.harvest import label_table
from rbx.grid.manifest import Manifest, quality_metric
from rbx.grid.store import Origin, read_tables, refuse_place, write_grid
from rbx.label.answer import Answers, Signal, Verdict
from rbx.label.grid_answers import answers_of, given_answers
from rbx.label.journal import Journal
from rbx.label.label_book import Key, LabelBook, label_rows
from rbx.label.progress import Progress
from rbx.label.scoring import Scoring, run_scoring
from rbx.label.workspace import Workspace


@dataclass(frozen=True)
class Regrade:
    """What to do with a grid: read it, score it, and write the one with more metrics to ``out``.

    ``judges`` are the records of the judges that score, for the card; ``limit`` keeps to the first prompts;
    ``quality`` names the metric that stands for quality from now on.
    """

    grid: Path
    out: Path
    retry_failed: bool = False
    force: bool = False
    judges: Mapping[str, Any] = field(default_factory=dict)
    limit: int | None = None
    quality: str | None = None


def regrade_grid(task: Regrade, signals: Sequence[Signal], progress: Progress) -> Built | None:
    """The grid with a metric more for each signal; None where Ctrl-C ended it, with all scores kept.

    Raises ``DatasetError`` where the grid does not hold, has no answers, or has such a metric already,
    and ``ServerError`` where a judge's server has gone.
    """
    refuse_place(task.out)
    progress.say(f"reading {task.grid}")
    manifest, tables = read_tables(task.grid)
    if again := [signal.name for signal in signals if signal.name in manifest.metrics]:
        raise DatasetError(f"{task.grid}: has a metric {again[0]!r} already; give the signal another name")
    quality = _quality(task, manifest, signals)
    answers = given_answers(answers_of(tables, task.limit))
    if not answers.stubs:
        raise DatasetError(f"{task.grid}: holds no answers' texts to score")
    journal = Workspace(task.out).labels
    taken_up = journal.is_file()
    verdicts = score_given(journal, answers, signals, progress, task.retry_failed)
    if verdicts is None:
        return None
    rows = list(label_rows(signals, verdicts.items()))
    origin = Origin(
        name=task.out.name,
        description=manifest.description,
        licence=manifest.licence,
        synthetic=manifest.synthetic,
        spec=manifest.spec,
        sources=manifest.sources,
        provenance=manifest.provenance
        | {
            "judged_from": manifest.digest,
            "judges": manifest.provenance.get("judges", {}) | dict(task.judges),
            "signals": manifest.provenance.get("signals", {}) | {each.name: each.digest for each in signals},
        },
    )
    grid = with_labels(manifest, tables, label_table(rows), quality)
    return Built(*write_grid(grid, origin, task.out, force=task.force, succeeds=taken_up))


def _quality(task: Regrade, manifest: Manifest, signals: Sequence[Signal]) -> str:
    metrics = [*manifest.metrics, *(signal.name for signal in signals)]
    try:
        return quality_metric(metrics, task.quality or manifest.quality)
    except ValueError as error:
        raise UsageError(f"quality: {error}") from None


def score_given(
    journal: Path, answers: Answers, signals: Sequence[Signal], progress: Progress, retry_failed: bool
) -> dict[Key, Verdict] | None:
    """Score answers, each score kept in ``journal``; all verdicts, or None after Ctrl-C."""
    with Journal(journal) as labels:
        book = LabelBook(labels, {signal.name: signal.digest for signal in signals})
        if not run_scoring(Scoring(answers, book, retry_failed), signals, progress):
            return None
        keys = ((signal.name, stub) for signal in signals for stub in answers.stubs)
        return dict(book.verdicts(keys))
