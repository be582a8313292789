"""``rbx dataset agree``: how far two metrics of a grid agree."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rbx.cli.grid_tables import decimal, grid_table, percent, print_lines, titled

if TYPE_CHECKING:
    from rbx.label.agreement import Agreement, Estimate


def agree(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A grid with two metrics or more.")],
    first: Annotated[str, typer.Argument(metavar="METRIC", help="One metric, such as a judge's.")],
    second: Annotated[str, typer.Argument(metavar="METRIC", help="The other.")],
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of the resampling.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
) -> None:
    """Agreement of two metrics on single answers (Pearson, Spearman) and on the rank of models (Kendall).

    A figure that can't be estimated is told with the reason, never as a number.
    """
    from rbx.errors import UsageError
    from rbx.grid.store import open_view
    from rbx.label.agreement import compare_judges

    one, two = open_view(folder, first), open_view(folder, second)
    if one.metric == two.metric:
        raise UsageError(f"{one.metric} agrees with itself; name two metrics")
    found = compare_judges(one.models, one.score, two.score, seed=seed)
    if as_json:
        print(json.dumps({"first": one.metric, "second": two.metric, **found.document()}, indent=1))
        return
    _print(
        titled(one.name, one.synthetic, f"{one.metric} against {two.metric}"), one.metric, two.metric, found
    )


def _print(title: str, first: str, second: str, found: Agreement) -> None:
    from rich.console import Console

    console = Console()
    rows = [
        ("scored by both", f"{found.n:,} of {found.pairs:,}"),
        (f"by {first} alone", f"{found.only_first:,}"),
        (f"by {second} alone", f"{found.only_second:,}"),
        ("Pearson r", _with_span(found)),
        ("Spearman ρ", _told(found.spearman)),
        ("equal scores", "–" if found.same_share.value is None else percent(found.same_share.value)),
        ("mean difference, second less first", _told(found.mean_difference)),
        (f"rank of models, Kendall τ (n = {len(found.systems)})", _told(found.kendall)),
        ("the same best model", "–" if found.kendall.value is None else "yes" if found.best_agrees else "no"),
    ]
    console.print(grid_table(title, ("figure", "value"), rows))
    if found.systems:
        means = [(each.model, decimal(each.first), decimal(each.second)) for each in found.systems]
        over = f"Means over the {found.complete_prompts:,} prompts that both scored for every model"
        console.print(grid_table(over, ("model", first, second), means))
    else:
        print_lines(console, ["no prompt has scores by both for every model: no rank to compare"])


def _told(figure: Estimate) -> str:
    return decimal(figure.value) if figure.value is not None else f"not estimable: {figure.reason}"


def _with_span(found: Agreement) -> Any:
    span = found.pearson_span
    if found.pearson.value is None:
        return _told(found.pearson)
    if span.low is None or span.high is None:
        return f"{decimal(found.pearson.value)} (no interval: {span.reason})"
    return f"{decimal(found.pearson.value)} [{span.low:.3f}, {span.high:.3f}]"
