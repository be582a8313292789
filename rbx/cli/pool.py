"""``rbx pool``: what stands in a pool file."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rbx.cli.observe import observe

if TYPE_CHECKING:
    from rich.table import Table

    from rbx.config.pool import Pool, StepTime, Tier

app = typer.Typer(help="Show a pool, or observe a live server.", no_args_is_help=True)

SHOWN_CONTEXT_TOKENS = 500
SHOWN_BATCHES = (1, 32)


app.command()(observe)


@app.callback()
def pool() -> None:
    """Show a pool: its tiers, prices, limits and step times; observe a live server."""


def decode_step_s(step: StepTime, batch: int, context_tokens: int) -> float:
    """Seconds of a step in which ``batch`` sequences of ``context_tokens`` each decode one token."""
    from rbx.engine.instance_profile import StepCoefficients

    fixed_s, _, decode_s, context_s, _, _ = StepCoefficients.of(step).as_b
    return fixed_s + batch * (decode_s + context_s * context_tokens)


def tier_row(tier: Tier) -> dict[str, Any]:
    """One tier as plain values, with derived figures; times in seconds."""
    steps = {
        batch: decode_step_s(tier.step_time, batch, SHOWN_CONTEXT_TOKENS)
        for batch in SHOWN_BATCHES
        if batch <= tier.limits.max_num_seqs
    }
    return {
        "name": tier.name,
        "model": tier.model,
        "gpu": tier.gpu,
        "gpus_per_instance": tier.gpus_per_instance,
        "instances": tier.instances,
        "price_in_usd_per_mtok": tier.price_in_usd_per_mtok,
        "price_out_usd_per_mtok": tier.price_out_usd_per_mtok,
        "max_num_seqs": tier.limits.max_num_seqs,
        "max_num_batched_tokens": tier.limits.max_num_batched_tokens,
        "max_model_len": tier.limits.max_model_len,
        "kv_tokens": tier.limits.kv_blocks * tier.limits.block_size,
        "tpot_prior_s": tier.tpot_prior_s,
        "context_tokens": SHOWN_CONTEXT_TOKENS,
        "decode_step_s": {str(batch): seconds for batch, seconds in steps.items()},
        "single_stream_tpot_s": steps[1],
        "step_time_feature_set": tier.step_time.feature_set,
        "step_time_source": tier.step_time.source,
    }


def pool_document(loaded: Pool) -> dict[str, Any]:
    """The whole pool as plain values, for ``--json``."""
    tiers = [tier_row(tier) for tier in loaded.tiers]
    return {
        "name": loaded.name,
        "digest": loaded.digest,
        "models": list(loaded.models),
        "instances": sum(tier.instances for tier in loaded.tiers),
        "gpus": sum(tier.instances * tier.gpus_per_instance for tier in loaded.tiers),
        "tiers": tiers,
    }


@app.command()
def show(
    path: Annotated[
        Path, typer.Argument(metavar="POOL", help="A pool file, such as one of experiments/pools.")
    ],
    overrides: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Override one key; may be repeated."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Tiers with prices, limits, KV capacity and step times."""
    from rbx.config.pool import load_pool

    document = pool_document(load_pool(path, overrides).value)
    if as_json:
        typer.echo(json.dumps(document, indent=2))
    else:
        _print_tables(document)


def _print_tables(document: dict[str, Any]) -> None:
    from rich.console import Console

    console = Console()
    title = f"{document['name']}: {document['instances']} instances, {document['gpus']} GPUs"
    console.print(_table(title, ("tier", "model", "instances", "GPUs each"), _deployment(document)))
    limits = ("tier", "USD/Mtok in", "out", "sequences", "tokens/step", "KV tokens")
    console.print(_table("Prices and limits", limits, _limits(document)))
    times = ("tier", "TPOT alone, ms", "step at 32, ms", "tokens/s at 32", "prior, ms")
    console.print(_table(f"Decoding at {SHOWN_CONTEXT_TOKENS} tokens of context", times, _times(document)))


def _deployment(document: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    for tier in document["tiers"]:
        gpus = f"{tier['gpus_per_instance']} x {tier['gpu']}"
        yield tier["name"], tier["model"], str(tier["instances"]), gpus


def _limits(document: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    for tier in document["tiers"]:
        prices = (f"{tier[f'price_{side}_usd_per_mtok']:.3f}" for side in ("in", "out"))
        counts = (f"{tier[key]:,}" for key in ("max_num_seqs", "max_num_batched_tokens", "kv_tokens"))
        yield tier["name"], *prices, *counts


def _times(document: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    for tier in document["tiers"]:
        at_32 = tier["decode_step_s"].get("32")  # a tier may have fewer seats
        full = (None, None) if at_32 is None else (1000 * at_32, 32 / at_32)
        figures = (1000 * tier["single_stream_tpot_s"], *full, 1000 * tier["tpot_prior_s"])
        yield tier["name"], *("–" if figure is None else f"{figure:,.1f}" for figure in figures)


def _table(title: str, headings: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Table:
    from rich.markup import escape
    from rich.table import Table

    table = Table(title=escape(title), title_justify="left")
    for heading in headings:
        left = heading in ("tier", "model", "GPUs each")
        table.add_column(heading, justify="left" if left else "right")
    for row in rows:
        table.add_row(*map(escape, row))
    return table
