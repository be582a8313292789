"""``rbx train``: fit every head of a pool on a grid."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def train(
    grid: Annotated[Path, typer.Argument(help="Grid directory made by rbx build-dataset.")],
    pool: Annotated[Path, typer.Option(help="Pool file whose tiers the TPOT heads are for.")],
    out: Annotated[Path, typer.Option(help="Directory of the bundle; an older bundle there is replaced.")],
    encoder: Annotated[str, typer.Option(help="minilm, static, or st:NAME.")] = "minilm",
    k: Annotated[int, typer.Option(min=1, help="Neighbours of the quality and length head.")] = 10,
    metric: Annotated[str, typer.Option(help="Which score of the grid to predict.")] = "quality",
    compare: Annotated[bool, typer.Option(help="Measure the other encoders on the same split.")] = True,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the rate sweep and the bootstrap.")] = 0,
    routers: Annotated[
        list[str] | None,
        typer.Option(
            "--router",
            help="Train this router into the bundle at --out, which stays as it is otherwise: avengers-pro, "
            "best-route, best-route-frozen, cascade, linear, matrix-factorisation, mlp, semantic-router, "
            "source-best, or all (repeatable).",
        ),
    ] = None,
    encoder_path: Annotated[
        str | None,
        typer.Option(
            help="What --router best-route fine-tunes: minilm, or a folder or hub id of a BERT or DeBERTa-v2 "
            "encoder; by default microsoft/deberta-v3-small where the hub gives it, else minilm."
        ),
    ] = None,
    ties_to: Annotated[
        str | None,
        typer.Option(
            help="The model that BEST-Route's labels name where it is one of several that answer a prompt "
            "best; without it, and where it is not, the cheapest of them.",
        ),
    ] = None,
    calibrate: Annotated[
        bool,
        typer.Option(
            "--calibrate",
            help="Measure how far off latency predictions of the bundle at --out are, for the filters cdf "
            "and qlm; the bundle stays as it is otherwise.",
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> None:
    """Train the quality, length and latency heads of POOL on the grid, and report how good they are."""
    if routers and calibrate:
        from rbx.errors import UsageError

        raise UsageError("--router and --calibrate each add to a bundle; give one, then the other")
    if routers:
        from rbx.cli.train_routers import train_routers_into

        train_routers_into(
            out,
            grid,
            pool,
            routers,
            metric=metric,
            seed=seed,
            encoder_path=encoder_path,
            ties_to=ties_to,
            as_json=as_json,
        )
        return
    if calibrate:
        from rbx.cli.train_calibration import calibrate_into

        calibrate_into(out, grid, pool, metric=metric, seed=seed, as_json=as_json)
        return
    import json

    from rich.console import Console

    from rbx.cli.train_progress import shown_progress
    from rbx.config.pool import load_pool
    from rbx.grid.store import open_view
    from rbx.heads.bundle import check_target
    from rbx.heads.report_tables import report_tables
    from rbx.heads.train import TrainOptions, train_bundle

    check_target(out)  # before minutes of work, not after
    pool_value = load_pool(pool).value
    view = open_view(grid, metric)
    options = TrainOptions(encoder=encoder, k=k, compare=compare, seed=seed)
    with shown_progress() as progress:
        trained = train_bundle(view, pool_value, options, progress)
    trained.bundle.save(out)
    console = Console()
    if as_json:
        data = {"bundle": str(out), "encode_alone_ms": trained.encode_alone_ms, **trained.report.as_json()}
        print(json.dumps(data, allow_nan=False))
        return
    for table in report_tables(trained.report, trained.encode_alone_ms):
        console.print(table)
    for note in trained.report.notes:
        console.print(f"note: {note}", markup=False)
    console.print(f"bundle written to {out}", markup=False)
