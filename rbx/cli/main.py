"""The ``rbx`` command: subcommands imported on first use, and one place that reports errors."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command, get_group

from rbx import __version__
from rbx.errors import RbxError


class Lazy(NamedTuple):
    """Where a subcommand lives (``module:attribute``) and its line in ``rbx --help``."""

    target: str
    help: str


COMMANDS: dict[str, Lazy] = {
    "build-dataset": Lazy(
        "rbx.cli.build_dataset:build_dataset", "Build a labelled grid (prompts x models) from a spec file."
    ),
    "dataset": Lazy("rbx.cli.dataset:app", "Check a grid, show what stands in it, or export it."),
    "train": Lazy("rbx.cli.train:train", "Train the heads that predict quality, length and latency."),
    "pool": Lazy("rbx.cli.pool:app", "Show a pool, or record the steps of a live server."),
    "launch": Lazy("rbx.cli.launch:launch", "Bring up a pool's tiers and the scheduler in front of them."),
    "serve": Lazy("rbx.cli.serve:serve", "Serve a pool of running servers as one OpenAI-compatible API."),
    "mock-tier": Lazy(
        "rbx.cli.mock_tier:mock_tier", "Serve a pool's instances without GPUs, with faults on demand."
    ),
    "scoring-service": Lazy(
        "rbx.cli.scoring_service:scoring_service", "Score prompts in a process of its own, for a gateway."
    ),
    "sweep": Lazy("rbx.cli.sweep:sweep", "Run an experiment: every policy x rate x seed."),
    "report": Lazy("rbx.cli.report:report", "Turn a sweep into tables, figures and one HTML page."),
    "validate": Lazy("rbx.cli.validate:validate", "Replay a live sweep in the simulator: how far off is it?"),
    "cell": Lazy(
        "rbx.cli.cell:app", "Export a cell as a result of vllm bench serve, or import such results."
    ),
    "bench": Lazy("rbx.cli.bench:app", "Measure what decisions cost on this machine."),
}

# Commands that stand beside a plain one: ``rbx train step-time`` is not a grid named step-time.
BESIDE: dict[str, dict[str, Lazy]] = {
    "train": {"step-time": Lazy("rbx.cli.step_time:step_time", "Fit step times to recorded steps.")},
}


class PlainCommand(TyperCommand):
    """A command that gives way to one of ``beside`` where the first word is its name."""

    beside: dict[str, Lazy]

    def make_context(self, info_name: Any, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """The context of this command, or of the one beside it."""
        if args and args[0] in self.beside:
            other = load_command(args[0], self.beside[args[0]])
            return other.make_context(f"{info_name} {args[0]}", args[1:], parent, **extra)
        return super().make_context(info_name, args, parent, **extra)


def load_command(name: str, lazy: Lazy) -> Any:
    """Import one subcommand: a ``typer.Typer`` becomes a group, a function a plain command."""
    module, _, attribute = lazy.target.partition(":")
    found = getattr(import_module(module), attribute)
    if isinstance(found, typer.Typer):
        command: Any = get_group(found)
    else:
        beside = BESIDE.get(name, {})
        lines = [f"See also rbx {name} {other} --help: {beside[other].help}" for other in beside]
        single = typer.Typer(add_completion=False)
        single.command(cls=PlainCommand, epilog="\n\n".join(lines) or None)(found)
        command = get_command(single)
        command.beside = beside
    command.name = name
    return command


class LazyGroup(TyperGroup):
    """Lists every command from ``COMMANDS``, and imports the one that is run."""

    def __init__(self, **attrs: Any) -> None:
        """Stand in a stub for each command, which is all that the help page needs."""
        super().__init__(**attrs)
        for name, lazy in COMMANDS.items():
            self.add_command(TyperCommand(name=name, help=lazy.help), name)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The real command behind the name; an unknown one is a usage error with a suggestion."""
        name, command, rest = super().resolve_command(ctx, args)
        if name is not None and name in COMMANDS:
            command = load_command(name, COMMANDS[name])
        return name, command, rest


app = typer.Typer(
    cls=LazyGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"rbx {__version__}")
        raise typer.Exit


@app.callback(
    epilog="Exit codes: 0 ok, 1 failed, 2 usage, 3 finished with invalid cells, 130 stopped by Ctrl-C."
)
def rbx(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Which request should go to which model instance, at what quality, latency and cost?"""


def printable(text: str) -> str:
    """``text`` with control characters shown, not sent: a message may quote a model's output."""
    return "".join(c if c in "\n\t" or c.isprintable() else ascii(c)[1:-1] for c in text)


def _complain(message: str) -> None:
    typer.secho("error: ", fg=typer.colors.RED, err=True, nl=False)
    typer.echo(printable(message), err=True)


def _flushed(code: int) -> int:
    if sys.stdout is None:  # started with its output closed
        return code
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader left. Pointing stdout at the null device keeps the interpreter's own flush quiet.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return code


def run(args: list[str]) -> int:
    """Run one command line and return its exit code; expected errors become a line on stderr."""
    try:
        get_command(app).main(args=args, prog_name="rbx")
    except RbxError as error:
        _complain(str(error))
        return error.exit_code
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        _complain(f"{where}{error.strerror or error}")
        return 1
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    return 0


def main() -> None:
    """Entry point of the ``rbx`` script."""
    sys.exit(_flushed(run(sys.argv[1:])))
