"""``rbx scoring-service``: what a gateway's ``sidecar`` deployment starts; it scores prompts by itself."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rbx.cli.gateway_options import PortOption


def scoring_service(
    bundle_path: Annotated[
        Path, typer.Option("--bundle", metavar="DIR", help="Trained heads, with the router that is asked.")
    ],
    pool_path: Annotated[
        Path, typer.Option("--pool", metavar="POOL", help="The gateway's pool: routers weigh its prices.")
    ],
    policy: Annotated[
        str, typer.Option("--policy", metavar="P", help="The routed policy, by name or as a mapping in YAML.")
    ],
    port: PortOption = 0,
    max_size: Annotated[int, typer.Option("--max-size", min=1, help="Most prompts a scoring call.")] = 64,
    window_s: Annotated[
        float, typer.Option("--window", metavar="S", min=0.0, max=60.0, help="Longest that a call is held.")
    ] = 0.01,
    within_s: Annotated[
        float, typer.Option("--within", metavar="S", min=0.001, max=3600.0, help="Longest scoring call.")
    ] = 1.0,
    told_path: Annotated[
        Path | None,
        typer.Option("--told", metavar="FILE", help="Write where it answers there, once it does."),
    ] = None,
) -> None:
    """Score prompts over HTTP on this machine, until Ctrl-C."""
    import json
    import os
    import time

    from rbx.cli.gateway_options import loaded_bundle
    from rbx.config.base import parse
    from rbx.config.deployment import ScoringQueue
    from rbx.config.gateway import GatewayConfig
    from rbx.config.pool import load_pool
    from rbx.config.short_policy import gateway_document
    from rbx.durable import write_text
    from rbx.serve.event_loop import run_in_loop
    from rbx.serve.gateway.scoring.local_stage import LocalStage
    from rbx.serve.gateway.scoring.router import asked_by, scoring_identity
    from rbx.serve.gateway.scoring.service import serve_scoring
    from rbx.serve.launch.ports import LOOPBACK, address_of, bound

    pool = load_pool(pool_path).value
    single = parse(GatewayConfig, gateway_document(policy), where="--policy").single_policy(pool.models)
    bundle = loaded_bundle(bundle_path, pool)
    assert bundle is not None
    queue = ScoringQueue(workers=1, max_size=max_size, window_s=window_s, rpc_s=0.0)
    stage = LocalStage(bundle, asked_by(single, bundle, pool), queue, time.monotonic, within_s)
    with bound(LOOPBACK, port) as sock:

        def started() -> None:
            if told_path is not None:
                note = {
                    "url": address_of(sock),
                    "pid": os.getpid(),
                    "scores_by": scoring_identity(single, bundle),
                }
                write_text(json.dumps(note), told_path)
            typer.echo(f"scoring for {single.label} on {address_of(sock)}; Ctrl-C ends it")

        run_in_loop(serve_scoring(stage, sock, started))
