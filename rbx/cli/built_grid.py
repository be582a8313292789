"""What a command says of the grid that it wrote."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rbx.cli.grid_tables import print_lines

if TYPE_CHECKING:
    from rbx.grid.build import Built


NOT_SCORED = (("missing", "missing"), ("judge_failed", "that the judge failed"))
MANY_FAILED = 0.05


def print_built(built: Built, folder: Path) -> None:
    """Counts of a grid, what failed on the way, and what to do next."""
    from rich.console import Console

    manifest, counts = built.manifest, built.manifest.counts
    synthetic = " (synthetic)" if manifest.synthetic else ""
    share = f"{counts.labels_present:,} of {counts.labels:,} present"
    answers: dict[str, dict[str, Any]] = manifest.provenance.get("answers", {})
    scores: dict[str, dict[str, Any]] = manifest.provenance.get("scores", {})
    lines = [
        f"{manifest.name}{synthetic}: {folder}" + ("" if built.written else " (unchanged)"),
        f"  prompts     {counts.prompts:,} ({counts.train:,} train, {counts.test:,} test)",
        f"  models      {len(manifest.models)}: {', '.join(manifest.models)}",
        *(f"  answers     {model}: {_told(found)}" for model, found in answers.items()),
        f"  labels      {share}, metrics {manifest.metrics_told}",
        *(f"  scores      {metric}: {_scored(found)}" for metric, found in scores.items()),
        f"  duplicates  {counts.duplicate_prompts:,} prompts dropped for an equal text, "
        f"{counts.disagreeing_duplicates:,} of them scored otherwise",
        f"  input       tokens {manifest.input_tokens_origin}",
        f"  digest      {manifest.digest}",
    ]
    if any(found["error"] for found in answers.values()) or any(
        found["judge_failed"] for found in scores.values()
    ):
        lines.append("what failed is asked again with --retry-failed")
    lines.extend(
        f"warning: {model} answered no prompt at all; `rbx dataset check` tells why"
        for model, found in answers.items()
        if not found["ok"]
    )
    if quality := scores.get(manifest.quality):
        lines.extend(_complaint(manifest.quality, quality))
    lines.append(f"next: rbx dataset show {folder}")
    print_lines(Console(), lines)


def _told(counts: dict[str, Any]) -> str:
    shown = ("ok", "empty", "error", "missing", "truncated")
    named = {"truncated": "cut at the limit"}
    return ", ".join(f"{counts[key]:,} {named.get(key, key)}" for key in shown if counts[key] or key == "ok")


def _scored(counts: dict[str, Any]) -> str:
    mean = "" if counts["mean"] is None else f" with mean {counts['mean']:.3f}"
    rest = [f"{counts[key]:,} {named}" for key, named in NOT_SCORED if counts[key]]
    return ", ".join([f"{counts['scored']:,}{mean}", *rest])


def _complaint(metric: str, counts: dict[str, Any]) -> Iterator[str]:
    judged = counts["scored"] + counts["judge_failed"]
    if judged and counts["judge_failed"] > MANY_FAILED * judged:
        yield (
            f"warning: the judge of {metric}, which stands for quality, failed on "
            f"{counts['judge_failed']:,} of {judged:,} answers; `rbx dataset check` tells how"
        )
