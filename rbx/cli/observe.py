"""``rbx pool observe``: record the steps that a live vLLM server executes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rbx.serve.observe.calibration_load import CalibrationLoad
    from rbx.serve.observe.recording import Recording, StepSource
    from rbx.serve.observe.server import ServerIdentity
    from rbx.serve.observe.session import Moment

DEFAULT_SEATS = 64  # where the server does not say how many requests it runs at once


def observe(
    url: Annotated[str, typer.Argument(metavar="URL", help="The server, such as http://127.0.0.1:8000.")],
    out: Annotated[Path, typer.Option("--out", metavar="TRACE.parquet", help="Where the trace goes.")],
    state: Annotated[
        Path | None,
        typer.Option(
            "--state",
            metavar="FILE|DIR",
            help="What the publishing scheduler writes, or its folder (default: $RBX_STATE_DIR).",
        ),
    ] = None,
    log: Annotated[
        Path | None,
        typer.Option(
            "--log", metavar="FILE", help="Read --enable-logging-iteration-details lines of this log instead."
        ),
    ] = None,
    duration_s: Annotated[
        float, typer.Option("--duration", metavar="S", min=1.0, help="Seconds to observe.")
    ] = 120.0,
    drive: Annotated[
        bool, typer.Option("--drive/--no-drive", help="Send a calibration load meanwhile.")
    ] = False,
    max_prompt: Annotated[
        int | None, typer.Option("--max-prompt", metavar="TOKENS", min=1, help="Longest prompt of the load.")
    ] = None,
    max_answer: Annotated[
        int | None, typer.Option("--max-answer", metavar="TOKENS", min=1, help="Longest answer of the load.")
    ] = None,
    max_concurrency: Annotated[
        int | None, typer.Option("--max-concurrency", metavar="N", min=1, help="Most requests at once.")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of the load.")] = 0,
) -> None:
    """Record the steps of a live vLLM server into a trace for `rbx train step-time`.

    Ctrl-C ends it early and keeps what there is.
    """
    import httpx

    from rbx.engine.step_trace import check_target
    from rbx.errors import UsageError
    from rbx.serve.observe.recording import Recording
    from rbx.serve.observe.server import identify

    if state is not None and log is not None:
        raise UsageError("--state and --log are two sources of the same steps; give one of them")
    if out.suffix != ".parquet":
        raise UsageError(f"{out}: a step trace is written as Parquet; name it .parquet")
    with httpx.Client() as client:
        server = identify(url, client)
    source = _source(server, state, log)
    notes = _notes(server, source)
    load = _load(server, notes, (max_prompt, max_answer, max_concurrency), seed) if drive else None
    check_target(out)  # before minutes of watching, not after
    recording = Recording(source)
    stopped = _watch(recording, load, duration_s)
    recording.write(out, notes)
    _report(recording, load, out, stopped)


def _source(server: ServerIdentity, state: Path | None, log: Path | None) -> StepSource:
    from rbx.serve.observe.iteration_log import IterationLog
    from rbx.serve.observe.session import state_file
    from rbx.serve.observe.step_ring import StepRing

    return IterationLog(log) if log is not None else StepRing(state_file(state, server))


def _notes(server: ServerIdentity, source: StepSource) -> dict[str, Any]:
    """What the trace says about the server; what the source itself knows goes first."""
    engine: dict[str, Any] = {}
    if server.max_model_len:
        engine["max_model_len"] = server.max_model_len
    if server.block_size:
        engine["block_size"] = server.block_size
    if server.num_gpu_blocks:
        engine["kv_blocks"] = server.num_gpu_blocks - 1
    return {
        "model": server.model,
        "url": server.url,
        "vllm_version": server.vllm_version,
        "engine": engine,
        **source.describe(),
    }


def _load(
    server: ServerIdentity,
    notes: dict[str, Any],
    limits: tuple[int | None, int | None, int | None],
    seed: int,
) -> CalibrationLoad:
    import dataclasses

    import numpy as np

    from rbx.errors import UsageError
    from rbx.serve.observe.calibration_load import CalibrationLoad, LoadDesign

    engine, (prompt, answer, concurrency) = notes["engine"], limits
    context = engine.get("max_model_len")
    if context is None:
        raise UsageError(f"{server.url} does not tell its max_model_len; --drive needs it")
    seats = concurrency or engine.get("max_num_seqs") or DEFAULT_SEATS
    design = LoadDesign.of(context, seats)
    if concurrency:
        design = dataclasses.replace(design, levels=tuple(n for n in design.levels if n <= concurrency))
    longest = prompt or design.longest_prompt
    answers = answer or min(design.longest_answer, context - longest)
    if longest + answers > context:
        raise UsageError(
            f"prompts of {longest} and answers of {answers} tokens pass the server's {context}; lower "
            "--max-prompt or --max-answer"
        )
    shortest = min(design.shortest_prompt, longest)
    design = dataclasses.replace(
        design, longest_prompt=longest, longest_answer=answers, shortest_prompt=shortest
    )
    return CalibrationLoad(server, design, np.random.default_rng(seed))


def _watch(recording: Recording, load: CalibrationLoad | None, duration_s: float) -> bool:
    """Observe with a line of progress on stderr; True if it was stopped early."""
    import asyncio
    import signal

    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    from rbx.serve.observe.session import observe as observing

    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as bars:
        task = bars.add_task("observing", total=duration_s)

        def show(moment: Moment) -> None:
            bars.update(task, completed=duration_s - moment.left_s, description=_line(moment))

        # A shell starts background jobs with the signal ignored; whoever then sends it means this command.
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            asyncio.run(observing(recording, load, duration_s, show))
        except KeyboardInterrupt:
            return True
        finally:
            signal.signal(signal.SIGINT, before)
    return False


def _line(moment: Moment) -> str:
    text = f"{moment.steps:,} steps"
    if moment.load is not None:
        progress = moment.load.progress
        text += f", {progress.done:,} requests, {progress.level} at once"
        if progress.failed:
            text += f", {progress.failed:,} failed"
    return text


def _report(recording: Recording, load: CalibrationLoad | None, out: Path, stopped: bool) -> None:
    typer.echo(f"{recording.steps:,} steps in {out}" + (" (stopped early)" if stopped else ""))
    if recording.lost:
        typer.echo(f"{recording.lost:,} steps were overwritten before they could be read", err=True)
    if load is not None and load.progress.failed:
        progress = load.progress
        typer.echo(f"{progress.failed:,} requests failed, the last with {progress.last_error}", err=True)
    typer.echo(f"next: rbx train step-time {out}")
